"""python -m co2l.train: one continual run in this process, without Ray or MLflow, on train + validation data."""

from __future__ import annotations

import argparse

from co2l.console import INTERRUPTED, OK, Parser, add_run_arguments, execute

EXAMPLE = """\
example:
  python -m co2l.train --benchmark seq_digits --set kappa=0.1 --set buffer_size=200

The same command again continues, or answers from what is stored. Accuracies are on the validation split
(10% of the training samples); only co2l.evaluate opens test data.
exit codes: 0 done, 2 wrong input or data, 130 interrupted (state saved)"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.train",
        description="Train one continual run and evaluate it on validation data.",
        epilog=EXAMPLE,
    )
    p.add_argument("--benchmark", default="seq_digits", help="task stream to learn (default: seq_digits)")
    p.add_argument("--method", default="co2l", help="how to learn it (default: co2l)")
    p.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting; repeatable")
    p.add_argument("--seed", type=int, default=0, help="seed of the run (default: 0)")
    p.add_argument("--validation", type=float, default=0.1, metavar="SHARE", help="validation share (default: 0.1)")
    p.add_argument("--split-seed", type=int, default=0, help="seed of the validation split (default: 0)")
    add_run_arguments(p)
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
