"""The commands by name, where each is, and what it is for; those that run nothing are in this package."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

WORK = ("tune", "train", "evaluate", "protocols", "report", "cluster")  # each is `python -m co2l.NAME` too
LATER = ("studies", "show", "rename", "export", "rm", "gc")
CATALOGUE = ("spaces", "methods", "benchmarks", "settings", "completion")
GROUPS = {"run": WORK, "look after": LATER, "look up": CATALOGUE}
COMMANDS = (*WORK, *LATER, *CATALOGUE)


def module_of(command: str) -> str:
    if command == "cluster":
        return "co2l.cluster.__main__"
    return f"co2l.{command}" if command in WORK else f"co2l.commands.{command}"


def purpose(command: str) -> str:
    """The first line of the module's docstring behind the command's name, read without importing it."""
    spec = find_spec(module_of(command))
    assert spec is not None
    assert spec.origin is not None
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].partition(": ")[2]
