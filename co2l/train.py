"""python -m co2l.train: one continual run in this process, without Ray or MLflow, on train + validation data."""

from __future__ import annotations

import argparse

from co2l.console import INTERRUPTED, OK, Parser, execute

EXAMPLE = """\
example:
  python -m co2l.train --benchmark seq_digits --set kappa=0.1 --set buffer_size=200

The same command again continues, or answers from what is stored. Accuracies are on the validation split
(10% of the training samples); only co2l.evaluate opens test data.
exit codes: 0 done, 2 wrong input or data, 130 interrupted (state saved)"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.train",
        usage="python -m co2l.train [options]",
        description="Train one continual run and evaluate it on validation data.",
        epilog=EXAMPLE,
    )
    what = p.add_argument_group("what is learned")
    what.add_argument("--benchmark", default="seq_digits", help="task stream to learn (default: seq_digits)")
    what.add_argument("--method", default="co2l", help="how to learn it (default: co2l)")
    what.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting; repeatable")
    what.add_argument("--seed", type=int, default=0, help="seed of the run (default: 0)")
    what.add_argument("--validation", type=float, default=0.1, metavar="SHARE", help="validation share (default: 0.1)")
    what.add_argument("--split-seed", type=int, default=0, help="seed of the validation split (default: 0)")
    where = p.add_argument_group("where it runs and what it leaves")
    where.add_argument("--root", default="runs", help="where states and results go; a folder or URL (default: runs)")
    where.add_argument("--data", help="folder of the datasets (default: $CO2L_DATA or ./data)")
    where.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, … (default: auto)")
    where.add_argument("--save-every", type=float, default=60.0, metavar="SECONDS", help="between mid-task states")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    # torch takes seconds to import: --help and argument errors do not wait for it
    from co2l.data.streams import Split
    from co2l.learning.config import parse_assignments
    from co2l.learning.methods import configure
    from co2l.progress import print_result
    from co2l.single import InterruptedRunError, run_here

    split = Split("search", fraction=args.validation, seed=args.split_seed)
    settings = parse_assignments(args.set)
    config = configure(args.benchmark, args.method, settings, seed=args.seed, split=split, where="--set")
    try:
        result, path = run_here(
            config,
            data=args.data,
            root=args.root,
            device=args.device,
            save_every=args.save_every,
            quiet=args.quiet or args.json,
        )
    except InterruptedRunError:
        return INTERRUPTED
    print_result(config, result, path, as_json=args.json)
    return OK


if __name__ == "__main__":
    execute(main)
