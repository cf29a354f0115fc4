"""Everything that benchmarks, examples and docs scripts import from the package exists."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(path for folder in ("benchmarks", "docs", "examples") for path in (ROOT / folder).glob("*.py"))


def imports(path: Path) -> list[str]:
    """The names that a script takes from co2l, even inside functions."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    found = [(node.module, alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    return [f"{module}:{name}" for module, name in found if module and module.split(".")[0] == "co2l"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_exists(path: Path) -> None:
    for name in imports(path):
        module, _, attribute = name.partition(":")
        assert hasattr(import_module(module), attribute) or find_spec(f"{module}.{attribute}"), name


def test_imports_are_found() -> None:
    assert "co2l.search.service:search" in imports(ROOT / "benchmarks" / "startup.py")
