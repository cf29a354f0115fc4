"""co2l studies: every search and evaluation below a root: progress, best result, cost and age."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

from co2l.cli.arguments import add_record_arguments, storage_of
from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows
from co2l.errors import Co2lError

if TYPE_CHECKING:
    from co2l.search.record.reader import StudyReader

EXAMPLE = """\
examples:
  co2l studies
  co2l studies --root elsewhere --json

One of them: co2l show STUDY. To delete one: co2l rm STUDY.
exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l studies", description="List every search and evaluation below a root.", epilog=EXAMPLE)
    add_record_arguments(p)
    p.add_argument("--json", action="store_true", help="print the list as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    # torch and Optuna take seconds to import: --help and argument errors do not wait for them
    from co2l.search.record.reader import StudyReader

    storage = storage_of(args)
    reader = StudyReader(storage)
    rows = [_row(reader, storage, name, as_json=args.json) for name in reader.names()]
    if rows or args.json:
        print_rows(rows, as_json=args.json)
    else:
        print("no studies yet; begin with: co2l tune --space seq_digits")
    return OK


def _row(reader: StudyReader, storage: str, name: str, *, as_json: bool) -> dict[str, Any]:
    """One that cannot be read, as another version made it, is no reason not to list the others."""
    from co2l.reporting.summary import summarise
    from co2l.search.record.lease import driver_of

    driver = None
    with contextlib.suppress(Co2lError):  # locks cannot be taken on a disk that is only read
        driver = driver_of(storage, name)
    try:
        summary = summarise(reader.study(name))
    except Co2lError as error:
        if as_json:
            return {"name": name, "error": str(error)}
        unknown = dict.fromkeys(("kind", "space", "progress", "cost", "age"))
        return {"study": name, **unknown, "best": f"cannot be read: {error.what}"}
    if as_json:
        return {**summary.as_dict(), "driver": driver}
    return {**summary.row(), "age": "runs now" if driver else summary.age}
