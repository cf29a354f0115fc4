"""co2l: the commands, and what each is for."""

from __future__ import annotations

import sys
from importlib import import_module

from co2l import __version__
from co2l.cli.console import OK, Parser, execute
from co2l.commands import COMMANDS, GROUPS, module_of, purpose
from co2l.errors import unknown

EXAMPLE = "Each command explains its flags with --help. To begin: co2l tune --space seq_digits"


def run() -> None:
    """The console script."""
    execute(main)


def main() -> int:
    words = sys.argv[1:]
    if words and not words[0].startswith("-"):
        return _call(words[0], words[1:])
    p = Parser(prog="co2l", usage="co2l COMMAND [options]", description="\n".join(_listed()), epilog=EXAMPLE)
    p.add_argument("--version", action="version", version=f"co2l {__version__}")
    p.parse_args()
    print("\n".join([*_listed(), "", EXAMPLE]))
    return OK


def _call(command: str, arguments: list[str]) -> int:
    """The command's own `main`, which finds its arguments where Python puts them."""
    if command not in COMMANDS:
        raise unknown("command", command, COMMANDS, where="co2l")
    sys.argv = [f"co2l {command}", *arguments]
    return int(import_module(module_of(command)).main())


def _listed() -> list[str]:
    lines: list[str] = []
    for title, commands in GROUPS.items():
        lines += [*([""] if lines else []), f"{title}:", *(f"  {name:<11} {purpose(name)}" for name in commands)]
    return lines


if __name__ == "__main__":
    run()
