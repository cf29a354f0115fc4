"""co2l methods: the learning methods by name, with the scenarios that each serves."""

from __future__ import annotations

import argparse
import inspect

from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows

EXAMPLE = """\
examples:
  co2l methods
  co2l train --method er

The settings of one: co2l settings METHOD
exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l methods", description="List the learning methods.", epilog=EXAMPLE)
    p.add_argument("--json", action="store_true", help="print the list as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.learning.methods import METHODS

    rows = [
        {
            "method": name,
            "serves": ", ".join(f"{each}-incremental" for each in sorted(kind.scenarios)),
            "settings": len(kind.settings_type.model_fields),
            "about": _about(kind),
        }
        for name, kind in METHODS.items()
    ]
    print_rows(rows, as_json=args.json)
    return OK


def _about(kind: type) -> str:
    """The first line of its module's docstring: what the method is."""
    module = inspect.getmodule(kind)
    return (inspect.getdoc(module) or "").partition("\n")[0] if module else ""
