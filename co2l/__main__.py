"""python -m co2l: the commands, and what each is for."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

from co2l.cli.console import OK, Parser, execute

COMMANDS = ("tune", "train", "evaluate", "report", "cluster")
EXAMPLE = (
    "Each command explains its flags with --help. To begin: python -m co2l.tune --space search_spaces/seq_digits.yaml"
)


def main() -> int:
    Parser(prog="python -m co2l", description=__doc__, epilog=EXAMPLE).parse_args()
    print("\n".join(line for name in COMMANDS for line in _described(name)))
    print(f"\n{EXAMPLE}")
    return OK


def _described(name: str) -> list[str]:
    """The first line of a command's docstring, which begins with how it is typed."""
    spec = find_spec(f"co2l.{name}.__main__" if name == "cluster" else f"co2l.{name}")
    assert spec is not None
    assert spec.origin is not None
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    typed, _, purpose = text.splitlines()[0].partition(": ")
    return [typed, f"  {purpose}"]


if __name__ == "__main__":
    execute(main)
