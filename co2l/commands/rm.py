"""co2l rm: delete a study: its record, its runs in MLflow, its files, and the states that nothing else needs."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from co2l.cli.arguments import add_storage_arguments, locations_of
from co2l.cli.console import FAILED, OK, Parser
from co2l.cli.listing import size
from co2l.errors import Co2lError

EXAMPLE = """\
examples:
  co2l rm first_try
  co2l rm first_try first_try.test --models --yes

It says what it would delete and asks. A study that runs is never deleted, nor one whose run holds a registered model,
unless --models deletes that too. States that another study shares stay.
exit codes: 0 done, 1 not confirmed, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l rm", description="Delete studies with everything that only they need.", epilog=EXAMPLE)
    p.add_argument("study", nargs="+", metavar="STUDY", help="its name; `co2l studies` lists them")
    p.add_argument("--yes", action="store_true", help="do not ask")
    p.add_argument("--models", action="store_true", help="delete the registered models in its runs too")
    add_storage_arguments(p.add_argument_group("where it is"))
    p.add_argument("--json", action="store_true", help="print what was deleted as JSON; needs --yes")
    return p


def main() -> int:
    args = parser().parse_args()
    if not args.yes and (args.json or not sys.stdin.isatty()):
        raise Co2lError("nobody can be asked here", where="co2l rm", fix="add --yes to delete without a question")
    from co2l.search.upkeep import removal, remove

    where = locations_of(args)
    planned = [removal(where, study, models=args.models) for study in args.study]
    if not args.yes:
        for each in planned:
            models = f", models {', '.join(each.models)}" if each.models else ""
            files = f"{each.trials} trials, {each.runs} runs in MLflow{models}, {each.states} files in the store"
            print(f"{each.study}: {files} ({size(each.bytes)})")
        if input("delete this for good? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing was deleted")
            return FAILED
    removed = [remove(where, study, models=args.models) for study in args.study]
    if args.json:
        print(json.dumps([asdict(each) for each in removed], indent=2))
        return OK
    for each in removed:
        print(f"deleted: {each.study}, {each.trials} trials, {each.runs} runs, {size(each.bytes)} in the store")
        if each.kept:
            print(f"  states are still in the store ({each.kept}); see: co2l gc")
    return OK
