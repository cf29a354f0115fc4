"""Imports point downward only, between packages and inside `search`; each engine has its own modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import co2l

PACKAGE = Path(co2l.__file__).parent
# what everything may import
FOUNDATIONS = {"errors", "files", "imports", "loading", "names", "plain_yaml", "plugins", "shipped", "urls"}
FOUNDATIONS |= {"__version__"}
# from the bottom; the commands that run something are above them
LAYERS = ["data", "learning", "search", "reporting", "cli", "cluster", "commands", "testing"]
SEARCH = [  # the same inside `search`; what an entry does not name belongs to the longest one that it begins with
    "algorithms.registry",
    "space",
    "record",
    "selection",
    "algorithms",
    "running",
    "tracking",
    "garbage",
    "service",
    "upkeep",
]
# a registry imports an algorithm when a space names it: only what it imports itself, at its start, counts
REGISTRIES = {"search/algorithms/registry.py"}
ENGINES = {
    "ray": {
        "cluster/jobs.py",
        "search/running/engine.py",
        "search/running/local_ray.py",
        "search/running/nodes.py",
        "search/running/trainable.py",
    },
    "optuna": {
        "search/algorithms/optuna_samplers.py",
        "search/algorithms/replaying.py",
        "search/algorithms/shown.py",
        "search/record/importance.py",
        "search/record/interactive.py",
        "search/record/storage.py",
        "search/record/study.py",
    },
    "mlflow": {
        "search/tracking/connection.py",
        "search/tracking/models.py",
        "search/tracking/runs.py",
        "search/tracking/upkeep.py",
    },
}


def imported(path: Path) -> set[str]:
    tree, found = ast.parse(path.read_text()), set()
    is_registry = str(path.relative_to(PACKAGE)) in REGISTRIES
    for node in tree.body if is_registry else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def of_ours(path: Path) -> Iterator[str]:
    """What a file imports of this package, without the package's name."""
    return (name.removeprefix("co2l.") for name in imported(path) if name.startswith("co2l."))


def test_every_package_is_a_layer() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_only_what_is_below(layer: str) -> None:
    allowed = {*FOUNDATIONS, *LAYERS[: LAYERS.index(layer) + 1]}
    for path in (PACKAGE / layer).rglob("*.py"):
        for name in of_ours(path):
            assert name.split(".")[0] in allowed, f"{path.name} imports {name}"


def rank(module: str) -> int:
    """Where a module of `search` stands in the order."""
    fitting = [name for name in SEARCH if f"{module}.".startswith(f"{name}.")]
    assert fitting, f"search.{module} is not in the order"
    return SEARCH.index(max(fitting, key=len))


def test_the_parts_of_a_search_import_one_way() -> None:
    files = set((PACKAGE / "search").rglob("*.py")) - {PACKAGE / "search" / "__init__.py"}
    assert len(files) > 20
    for path in files:
        module = ".".join(path.relative_to(PACKAGE / "search").with_suffix("").parts).removesuffix(".__init__")
        for name in of_ours(path):
            if name.startswith("search."):
                other = name.removeprefix("search.")
                assert rank(other) <= rank(module), f"{module} imports {other}"


@pytest.mark.parametrize("engine", ENGINES)
def test_only_its_own_modules_know_an_engine(engine: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == engine for name in imported(path))
    }
    assert users == ENGINES[engine]
