"""co2l benchmarks: the benchmarks by name, with their tasks, classes and data."""

from __future__ import annotations

import argparse

from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows

EXAMPLE = """\
examples:
  co2l benchmarks
  co2l train --benchmark r_digits

exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l benchmarks", description="List the benchmarks.", epilog=EXAMPLE)
    p.add_argument("--json", action="store_true", help="print the list as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.data.benchmarks import BENCHMARKS

    rows = [
        {
            "benchmark": name,
            "scenario": f"{each.scenario}-incremental",
            "tasks": each.tasks,
            "classes per task": each.classes_per_task,
            "image": "×".join(map(str, each.image_shape)),
            "examples": each.examples or None,
            "data": each.source,
        }
        for name, each in BENCHMARKS.items()
    ]
    print_rows(rows, as_json=args.json)
    return OK
