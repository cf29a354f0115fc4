"""co2l show: one study in detail: what it selected or tested, what mattered, what failed; or one of its trials."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from co2l.cli.arguments import add_record_arguments, root_of, storage_of
from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows
from co2l.errors import headline

if TYPE_CHECKING:
    from co2l.reporting.notebook import Study

EXAMPLE = """\
examples:
  co2l show seq_digits
  co2l show seq_digits --trial 3f2a
  co2l show seq_digits --trials

exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l show", description="Show one study, or one of its trials.", epilog=EXAMPLE)
    p.add_argument("study", metavar="STUDY", help="its name; `co2l studies` lists them")
    p.add_argument("--trials", action="store_true", help="a row for every trial")
    p.add_argument("--trial", metavar="KEY", help="everything about one trial, by the beginning of its key")
    add_record_arguments(p)
    p.add_argument("--json", action="store_true", help="print it as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.reporting.notebook import load_study

    study = load_study(storage_of(args), args.study)
    if args.trial:
        trial = study.trial(args.trial)
        print(json.dumps(trial.as_dict(), indent=2) if args.json else trial)
    elif args.json:
        print(json.dumps(study.as_dict(), indent=2))
    elif args.trials:
        print_rows([trial.row() for trial in study.trials()])
    else:
        _print(study, f"{root_of(args)}")
    return OK


def _print(study: Study, root: str) -> None:
    summary = study.summary()
    for name, text in summary.row().items():
        print(f"{name:<9} {text}")
    if study.earlier:
        print(f"began     with {study.earlier}")
    if shares := study.importance():
        print(f"mattered  {', '.join(f'{name} {share:.2f}' for name, share in shares.items())}")
    for trial in study.trials():
        if trial.reason and trial.status != "done":
            print(f"{trial.status:<9} {trial.key[:8]}: {headline(trial.reason)} (log: {root}/logs/{study.name})")
    if rows := study.outcome():
        print()
        print_rows(rows)
