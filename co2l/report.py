"""python -m co2l.report: the paper's tables and figures beside ours, from the record of searches and evaluations."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import TYPE_CHECKING

from co2l.cli.arguments import (
    add_import_argument,
    add_storage_arguments,
    root_of,
    storage_of,
    store_of,
    tracking_of,
    use_imports,
)
from co2l.cli.console import FAILED, OK, Parser, execute
from co2l.errors import Co2lError
from co2l.files import user_path
from co2l.loading import loading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from co2l.reporting.document import Report
    from co2l.search.record.reader import StudyReader

EXAMPLE = """\
examples:
  python -m co2l.report
  python -m co2l.report --study seq_digits --output report
  python -m co2l.report --protocols
  python -m co2l.report --compare NAME:supcon=asymmetric,buffer_size=100 NAME:supcon=symmetric,buffer_size=100

The report is OUTPUT/report.html (one file) and report.md with figures/ (PNG, SVG, PDF); it goes to MLflow too.
--protocols compares the ways in which searches selected, and is written to ROOT/protocols unless --output is given.
--compare reads what co2l.evaluate tested: more --seeds there make a smaller difference visible.
It trains nothing and opens no dataset: a result missing from the record is a marked gap with the command that fills it.
exit codes: 0 done, 1 written but not logged to MLflow, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.report",
        usage="python -m co2l.report [options]",
        description="Write the paper's tables and figures with our numbers beside its own.",
        epilog=EXAMPLE,
    )
    p.add_argument(
        "--study", metavar="NAME", action="append", default=[], help="with its evaluation; repeatable (default: all)"
    )
    what = p.add_argument_group("what to read")
    add_storage_arguments(what)
    add_import_argument(what)
    p.add_argument("--output", metavar="FOLDER", help="where to write the report (default: ROOT/report)")
    p.add_argument(
        "--protocols",
        action="store_true",
        help="not the paper's tables, but accuracy, rank and cost of each method under each selection protocol",
    )
    p.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="no report, but a paired test of two evaluated configurations, each NAME or NAME:key=value,…",
    )
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Those of the command line, unless some are given."""
    args = parser().parse_args(arguments)
    if args.compare and args.protocols:
        raise Co2lError("--compare and --protocols are two reports", fix="leave out one of them")
    if args.compare and args.study:
        raise Co2lError("--compare names its own studies", fix="leave out --study")
    # torch, Optuna and matplotlib take seconds to import: --help and argument errors do not wait for them
    with loading():
        from co2l.search.record.reader import StudyReader

    reader = StudyReader(storage_of(args))
    tracking_of(args)  # one that is none is told of at once, and not once the report is written
    use_imports(args)
    if args.compare:
        return _compare(reader, tuple(args.compare), as_json=args.json)
    if args.protocols:
        return _protocols(reader, args)
    return _report(reader, args)


def _compare(reader: StudyReader, names: tuple[str, str], *, as_json: bool) -> int:
    from co2l.reporting.compare import compare, find, lines

    found = compare(find(reader, names[0]), find(reader, names[1]))
    if as_json:
        print(json.dumps({"a": names[0], "b": names[1], "compared": [each.as_dict() for each in found]}, indent=2))
    else:
        print("\n".join(lines(names, found)))
    return OK


def _report(reader: StudyReader, args: argparse.Namespace) -> int:
    from co2l.reporting.gather import read, report

    found = read(reader, args.study, root=args.root or "runs", store=store_of(args))
    counts = f"studies: {len(found.studies)} · evaluated configurations: {len(found.evaluated)}"
    name = " ".join(args.study) or "all studies"
    made_of = report(found, title=f"Co²L: {name}", about=_about(counts), command=_typed(args))
    return _publish(made_of, args, name, [study.name for study in found.studies], "report")


def _protocols(reader: StudyReader, args: argparse.Namespace) -> int:
    from co2l.reporting import protocol_tables
    from co2l.reporting.protocol_studies import TO_RUN, results

    found = results(reader, args.study, root=args.root or "runs")
    runs = sum(len(each.accuracies) for each in found)
    title = f"Selection protocols: {' '.join(args.study) or 'all studies'}"
    about = _about(f"methods × protocols: {len(found)} · tested runs: {runs}")
    made_of = protocol_tables.report(found, title=title, about=about, command=_typed(args), to_run=TO_RUN)
    studies = sorted({name for each in found for name in each.studies})
    return _publish(made_of, args, title, studies, "protocols", results=[each.as_dict() for each in found])


def _about(counts: str) -> str:
    from datetime import UTC, datetime

    from co2l import __version__

    return f"{counts} · co2l {__version__} · {datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}"


def _typed(args: argparse.Namespace) -> str:
    """The command that makes this report."""
    words = [*(["--protocols"] if args.protocols else []), *(word for name in args.study for word in ("--study", name))]
    return shlex.join(["python", "-m", "co2l.report", *words, "--root", args.root or "runs"])


def _publish(
    made_of: Report, args: argparse.Namespace, name: str, studies: Sequence[str], below: str, **said: object
) -> int:
    """Write the report, log it, and say where it is."""
    from co2l.reporting.publish import files, write
    from co2l.search.tracking import log_report

    content = files(made_of)
    folder = user_path(args.output, "--output").absolute() if args.output else root_of(args) / below
    write(folder, content)
    gaps = len(made_of.gaps())
    trouble = ""
    try:
        log_report(tracking_of(args), name, studies=studies, files=content)
    except Co2lError as error:
        trouble = str(error)
    if args.json:
        written = {"report": str(folder / "report.html"), "figures": len(made_of.figures()), "gaps": gaps}
        print(json.dumps({**written, "logged": not trouble, **said}, indent=2))
    else:
        missing = f", {gaps} marked {'gap' if gaps == 1 else 'gaps'}" if gaps else ""
        print(f"{folder / 'report.html'} ({len(made_of.figures())} figures{missing})")
    if trouble:
        print(f"co2l: the report is written but not logged to MLflow: {trouble}", file=sys.stderr)
    return FAILED if trouble else OK


if __name__ == "__main__":
    execute(main)
