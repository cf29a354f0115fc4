"""co2l settings: every setting of a method: what it means, its default, its range, and which stages read it."""

from __future__ import annotations

import argparse

from co2l.cli.arguments import add_import_argument, use_imports
from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows

EXAMPLE = """\
examples:
  co2l settings co2l seq_digits
  co2l settings er --json
  co2l settings my_method --import my_method.py

Give one with --set NAME=VALUE, or several as axes of a search space. Stages that read the same values are shared.
exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l settings", description="List every setting of a method.", epilog=EXAMPLE)
    p.add_argument("method", metavar="METHOD", help="such as co2l; `co2l methods` lists them")
    p.add_argument("benchmark", nargs="?", metavar="BENCHMARK", help="whose defaults to show")
    add_import_argument(p)
    p.add_argument("--json", action="store_true", help="print the list as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.cli.method_settings import setting_rows, settings_table

    use_imports(args)
    asked = (args.method, args.benchmark)
    if args.json:
        print_rows(setting_rows(*asked, where="co2l settings"), as_json=True)
    else:
        print(settings_table(*asked, where="co2l settings"))
    return OK
