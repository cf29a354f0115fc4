"""co2l export: a study's trials as a table in a file, CSV or Parquet: values, scores, accuracies, cost."""

from __future__ import annotations

import argparse
import io
import sys

from co2l.cli.arguments import add_record_arguments, storage_of
from co2l.cli.console import OK, Parser
from co2l.files import user_path, write_atomic

EXAMPLE = """\
examples:
  co2l export seq_digits --csv trials.csv
  co2l export seq_digits --csv -
  co2l export seq_digits.test --parquet tested.parquet

exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l export", description="Write a study's trials to a file, a row for each.", epilog=EXAMPLE)
    p.add_argument("study", metavar="STUDY", help="its name; `co2l studies` lists them")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--csv", metavar="FILE", help="comma-separated values; - for the standard output")
    what.add_argument("--parquet", metavar="FILE", help="typed columns, for pandas, polars, DuckDB, …")
    add_record_arguments(p)
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.reporting.notebook import load_study

    frame = load_study(storage_of(args), args.study).frame()
    mixed = [name for name in frame if frame[name].dropna().map(type).nunique() > 1]
    frame = frame.astype(dict.fromkeys(mixed, str))  # a column has one type: buffer_size may be 100 and unlimited
    if args.csv == "-":
        frame.to_csv(sys.stdout, index=False)
        return OK
    content = io.BytesIO()
    if args.csv:
        frame.to_csv(content, index=False)
    else:
        frame.to_parquet(content, index=False)
    path = user_path(args.csv or args.parquet, "--csv" if args.csv else "--parquet")
    write_atomic(path, content.getvalue())
    print(f"{path} ({len(frame)} trials)")
    return OK
