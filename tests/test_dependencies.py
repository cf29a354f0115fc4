"""What we import is declared, and of the engines only what they promise to keep."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
ENGINES = ("ray", "optuna", "mlflow")
NO_PUBLIC_WAY = {
    # to start a Ray without its autoscaler, log monitor and dashboard: 2.6 of 6.1 CPU seconds
    ("co2l/search/running/local_ray.py", "ray._private.node"),
    ("co2l/search/running/local_ray.py", "_webui_url"),
    # to delete a run for good from a database without a server, which `mlflow gc` does with these
    ("co2l/search/tracking/upkeep.py", "_hard_delete_run"),
    ("co2l/search/tracking/upkeep.py", "_tracking_client"),
}
PEERS = ("smac", "ConfigSpace", "syne_tune")  # compared with ours where they are installed; nothing else needs them
OF_PYTHON = {"_exit", "_HelpAction", "_ArgumentGroup", "_ActionsContainer", "_SubParsersAction", "_actions"}


def distribution(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0].lower().replace("_", "-")


def sources(*folders: str) -> dict[str, ast.Module]:
    paths = (path for folder in folders for path in (REPOSITORY / folder).rglob("*.py"))
    return {str(path.relative_to(REPOSITORY)): parsed(path) for path in paths}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def modules(tree: ast.Module) -> set[str]:
    """All that it imports, wherever."""
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def undeclared(declared: set[str], *folders: str) -> set[tuple[str, str]]:
    found, trees = installed(), sources(*folders)
    own = {
        "co2l",
        *(name for path in sources("tests", "benchmarks", "examples") for name in Path(path).with_suffix("").parts),
    }
    return {
        (path, name)
        for path, tree in trees.items()
        for name in {module.partition(".")[0] for module in modules(tree)} - {*sys.stdlib_module_names, *own}
        if not declared & {each.lower().replace("_", "-") for each in found.get(name, [])}
    }


@functools.cache
def installed() -> Mapping[str, list[str]]:
    """The distributions that bring a package; it takes seconds to look."""
    return packages_distributions()


def declared(*extras: str) -> set[str]:
    return set(map(distribution, [*PROJECT["dependencies"], *(each for extra in extras for each in EXTRAS[extra])]))


def test_what_is_imported_is_declared() -> None:
    """`requests` was there only because MLflow happens to need it."""
    used = undeclared(declared("cluster", "notebook"), "co2l")
    assert {name for path, name in used if not path.startswith("co2l/testing/")} == set()
    used = undeclared(declared(*EXTRAS), "co2l", "tests", "benchmarks", "examples", "docs")
    assert used == {("benchmarks/other_peers.py", name) for name in PEERS}


def test_no_private_name_of_an_engine_is_used() -> None:
    """They change without notice: a trial's number was read as `_trial_id`."""
    trees = sources("co2l")
    users = {path for path, tree in trees.items() if any(name.partition(".")[0] in ENGINES for name in modules(tree))}
    assert len(users) > 10
    own = {name for tree in trees.values() for name in defined(tree)}
    used = set()
    for path in users:
        for module in modules(trees[path]):
            if module.partition(".")[0] in ENGINES and "._" in module:
                used.add((path, module))
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.Attribute) and re.fullmatch("_[^_].*", node.attr) and node.attr not in own:
                used.add((path, node.attr))
    assert {each for each in used if each[1] not in OF_PYTHON} == NO_PUBLIC_WAY


def defined(tree: ast.Module) -> set[str]:
    """The private names that are ours: methods, and attributes of `self`."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            found.add(node.attr)
    return found
