"""python -m co2l.train: one continual run in this process, without Ray or MLflow, evaluated on validation data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from co2l.cli.arguments import add_import_argument, add_umask_argument, store_root, use_imports
from co2l.cli.console import INTERRUPTED, OK, Parser, creating, execute
from co2l.cli.quantities import SECONDS, SEED, real, whole
from co2l.data.root import data_below
from co2l.loading import loading

if TYPE_CHECKING:
    from co2l.learning.config import RunConfig

METHOD = "co2l"  # unless another one is given
EXAMPLE = """\
example:
  python -m co2l.train --benchmark seq_digits --set kappa=0.1 --set buffer_size=200

Run the same command again to continue, or to get the stored result. Accuracies are on the validation split
(10% of the training examples); only co2l.evaluate reads the test set.
exit codes: 0 done, 2 wrong input or data, 130 interrupted (checkpoint saved)"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        help_says="show this help, with --method its settings too, and exit",
        below_help=_settings,
        prog="python -m co2l.train",
        usage="python -m co2l.train [options]",
        description="Train one continual run and evaluate it on validation data.",
        epilog=EXAMPLE,
    )
    what = p.add_argument_group("what to learn")
    what.add_argument("--benchmark", default="seq_digits", help="task stream to learn (default: seq_digits)")
    what.add_argument("--method", help=f"learning method (default: {METHOD})")
    what.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting; repeatable")
    what.add_argument("--seed", type=whole(0, SEED), default=0, help="seed of the run (default: 0)")
    what.add_argument(
        "--validation", type=real(0, 1), default=0.1, metavar="SHARE", help="validation share (default: 0.1)"
    )
    what.add_argument("--split-seed", type=whole(0, SEED), default=0, help="seed of the validation split (default: 0)")
    add_import_argument(what)
    where = p.add_argument_group("where to run and what to write")
    where.add_argument("--root", default="runs", help="folder or URL for checkpoints and results (default: runs)")
    where.add_argument("--data", help="folder with the datasets (default: $CO2L_DATA or ./data)")
    where.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, … (default: auto)")
    where.add_argument(
        "--save-every",
        type=SECONDS,
        default=60.0,
        metavar="SECONDS",
        help="time between checkpoints within a task",
    )
    add_umask_argument(where)
    p.add_argument("--verbose", action="store_true", help="a line for every epoch")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return p


def _settings(args: argparse.Namespace) -> str:
    """Those of the method that was given, if one was."""
    if args.method is None:
        return ""
    from co2l.cli.method_settings import help_on_settings

    use_imports(args)
    with data_below(args.data):
        return help_on_settings(args.method, args.benchmark)


def main() -> int:
    args = parser().parse_args()
    args.method = args.method or METHOD
    from co2l.cli.display import Display

    with data_below(args.data), Display(quiet=args.quiet or args.json) as display:
        # what is imported from here on takes seconds
        display.doing(f"{args.method} on {args.benchmark}: starting", checking=True)
        config = _configured(args)
        from co2l.cli.run_progress import print_result
        from co2l.cli.training import InterruptedRunError, run_here

        where = {"root": store_root(args.root), "device": args.device}
        try:
            with creating(args.umask):
                result, path = run_here(config, display, **where, save_every=args.save_every, verbose=args.verbose)
        except InterruptedRunError:
            return INTERRUPTED
    print_result(config, result, path, as_json=args.json)
    return OK


def _configured(args: argparse.Namespace) -> RunConfig:
    with loading():
        from co2l.data.streams import Split
        from co2l.learning.config import parse_assignments
        from co2l.learning.methods import configure

    use_imports(args)
    split = Split("search", fraction=args.validation, seed=args.split_seed)
    settings = parse_assignments(args.set)
    return configure(args.benchmark, args.method, settings, seed=args.seed, split=split, where="--set")


if __name__ == "__main__":
    execute(main)
