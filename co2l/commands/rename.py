"""co2l rename: give a study another name, in the record, in MLflow and in its files."""

from __future__ import annotations

import argparse

from co2l.cli.arguments import add_storage_arguments, locations_of
from co2l.cli.console import OK, Parser
from co2l.names import check_name

EXAMPLE = """\
examples:
  co2l rename seq_digits seq_digits_short

The evaluation of what it selected, STUDY.test, is renamed with it. Registered models and reports keep their names.
exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l rename", description="Give a study another name.", epilog=EXAMPLE)
    p.add_argument("study", metavar="STUDY", help="its name; `co2l studies` lists them")
    p.add_argument("new", metavar="NEW", help="its new name")
    add_storage_arguments(p.add_argument_group("where it is"))
    return p


def main() -> int:
    args = parser().parse_args()
    check_name(args.new, "NEW")
    from co2l.search.upkeep import rename

    print("\n".join(f"renamed: {name}" for name in rename(locations_of(args), args.study, args.new)))
    return OK
