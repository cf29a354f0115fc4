"""Imports point downward only (commands, reporting, search, learning, data); each engine has its own modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import co2l

PACKAGE = Path(co2l.__file__).parent
LAYERS = ["data", "learning", "search", "reporting"]  # from the bottom; the commands beside them may import all of them
ENGINES = {
    "ray": {"search/engine.py", "search/jobs.py", "search/nodes.py", "search/trainable.py"},
    "optuna": {"search/study.py", "search/tpe.py"},
    "mlflow": {"search/tracking/runs.py", "search/tracking/models.py"},
}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_only_what_is_below(layer: str) -> None:
    allowed = {"errors", *LAYERS[: LAYERS.index(layer) + 1]}
    files = list((PACKAGE / layer).rglob("*.py"))
    assert files
    for path in files:
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "co2l" and len(parts) > 1:
                assert parts[1] in allowed, f"{path.name} imports {name}"


@pytest.mark.parametrize("engine", ENGINES)
def test_only_its_own_modules_know_an_engine(engine: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == engine for name in imported(path))
    }
    assert users
    assert users <= ENGINES[engine]
