"""co2l settings: every setting of a method: what it means, its default, its range, and which stages read it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows

if TYPE_CHECKING:
    from co2l.learning.config import Settings

EXAMPLE = """\
examples:
  co2l settings co2l seq_digits
  co2l settings er --json

Give one with --set NAME=VALUE, or several as axes of a search space. Stages that read the same values are shared.
exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l settings", description="List every setting of a method.", epilog=EXAMPLE)
    p.add_argument("method", metavar="METHOD", help="such as co2l; `co2l methods` lists them")
    p.add_argument("benchmark", nargs="?", metavar="BENCHMARK", help="whose defaults to show")
    p.add_argument("--json", action="store_true", help="print the list as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.errors import unknown
    from co2l.learning.methods import METHODS, configure
    from co2l.learning.setting_ranges import READ_BY, range_of

    if args.method not in METHODS:
        raise unknown("method", args.method, METHODS, where="co2l settings")
    kind = METHODS[args.method].settings_type
    defaults = dict(configure(args.benchmark, args.method).settings) if args.benchmark else _defaults(kind)
    rows = [
        {
            "setting": name,
            "default": defaults.get(name),
            "range": range_of(kind, name),
            "read by": READ_BY[kind.scope(name)],
            "meaning": field.description or name.replace("_", " "),
        }
        for name, field in kind.model_fields.items()
    ]
    if not args.json:
        rows = [{**row, "default": "by benchmark" if row["default"] is None else row["default"]} for row in rows]
    print_rows(rows, as_json=args.json)
    return OK


def _defaults(kind: type[Settings]) -> dict[str, Any]:
    """Those that hold on every benchmark."""
    return {name: field.default for name, field in kind.model_fields.items() if not field.is_required()}
