"""python -m co2l.tune: search the settings of a space with Ray Tune and Optuna, tracked in MLflow."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from co2l.console import FAILED, INTERRUPTED, OK, Parser, execute, interruptible
from co2l.engine_arguments import add_engine_arguments, options_of, study_of, with_resources
from co2l.errors import Co2lError

if TYPE_CHECKING:
    from co2l.search.space import Space

EXAMPLE = """\
examples:
  python -m co2l.tune --space search_spaces/seq_digits.yaml
  python -m co2l.tune --space search_spaces/seq_cifar10.yaml --plan --probe --price 1.20
  python -m co2l.tune --space search_spaces/seq_cifar10.yaml --submit

The same command again continues; what is finished is not run again. $CO2L_ROOT, $CO2L_STORE, $CO2L_STORAGE,
$CO2L_TRACKING_URI and $CO2L_CLUSTER stand in for the flags.
exit codes: 0 done, 1 nothing could be selected, 2 wrong input or data, 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.tune",
        usage="python -m co2l.tune --space FILE [options]",
        description="Search the settings of a space; nothing of the test data is read.",
        epilog=EXAMPLE,
    )
    what = p.add_argument_group("what is searched")
    what.add_argument("--space", metavar="FILE", help="search space, as search_spaces/seq_digits.yaml")
    what.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="override a setting; repeatable")
    what.add_argument("--algorithm", choices=["grid", "random", "tpe"], help="instead of the space's")
    what.add_argument("--samples", type=int, metavar="N", help="how many settings random or tpe try")
    what.add_argument("--early-stop", choices=["on", "off"], help="stop weak cells at task boundaries")
    what.add_argument("--seed", type=int, default=0, help="seed of random and tpe (default: 0)")
    plan = p.add_argument_group("its price")
    plan.add_argument("--plan", action="store_true", help="print what the search would cost, and stop")
    plan.add_argument("--probe", action="store_true", help="with --plan: time a few steps to estimate hours")
    plan.add_argument("--price", type=float, metavar="AMOUNT", help="with --probe: price of the machines per hour")
    plan.add_argument("--parallel", type=int, default=1, metavar="N", help="with --probe: trials at once (default: 1)")
    where = add_engine_arguments(p)
    where.add_argument("--study", metavar="NAME", help="name of the study (default: by the space's file)")
    url = "(URL: $CO2L_CLUSTER or http://127.0.0.1:8265)"
    where.add_argument("--submit", nargs="?", const="", metavar="URL", help=f"leave it to a cluster {url}")
    where.add_argument("--follow", metavar="STUDY", help="show what a submitted search prints, until it ends")
    where.add_argument("--stop", metavar="STUDY", help="end a submitted search; its states are saved first")
    return p


def main() -> int:
    args = parser().parse_args()
    _check(args)
    if args.follow or args.stop:
        return _attend(args)
    # torch and Ray take seconds to import: --help and argument errors do not wait for them
    from co2l.search.space import load

    space = _overridden(load(args.space), args)
    if args.submit is not None:
        return _submit(args)
    return _plan(space, args) if args.plan else _search(space, args)


def _submit(args: argparse.Namespace) -> int:
    from co2l.search.jobs import submit

    ours = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--space", "--study"):
        ours.add_argument(name)
    ours.add_argument("--submit", nargs="?")
    _, arguments = ours.parse_known_args()
    study = args.study or study_of(args.space)
    submit(_cluster(args), study, Path(args.space), arguments)
    print(study if args.quiet else f"submitted: {study}\nsee it with: python -m co2l.tune --follow {study}")
    return OK


def _attend(args: argparse.Namespace) -> int:
    from co2l.search.jobs import follow, stop

    if args.stop:
        running = stop(_cluster(args), args.stop)
        print(f"{args.stop} is being stopped; the same search submitted again continues" if running else "ended before")
        return OK
    state = follow(_cluster(args), args.follow, lambda text: print(text, end="", flush=True))
    return {"succeeded": OK, "failed": FAILED, "stopped": INTERRUPTED, "running": INTERRUPTED}[state]


def _cluster(args: argparse.Namespace) -> str:
    import os

    from co2l.search.jobs import LOCAL

    return args.submit or os.environ.get("CO2L_CLUSTER") or LOCAL


def _overridden(space: Space, args: argparse.Namespace) -> Space:
    from co2l.learning.config import parse_assignments

    if args.set:
        space = space.with_settings(parse_assignments(args.set))
    keys = {"algorithm": args.algorithm, "samples": args.samples}
    if args.early_stop:
        keys["early_stop"] = args.early_stop == "on"
    if given := {name: value for name, value in keys.items() if value is not None}:
        space = space.replace(**given, where="--" + ", --".join(given).replace("_", "-"))
    return with_resources(space, args)


def _plan(space: Space, args: argparse.Namespace) -> int:
    from co2l.data.sources import data_root
    from co2l.learning.device import choose_device
    from co2l.search.plan import estimate, plan
    from co2l.search_progress import print_plan

    planned, estimated = plan(space), None
    if args.probe:
        estimated = estimate(
            space, data=data_root(args.data), device=choose_device("auto"), parallel=args.parallel, price=args.price
        )
    if args.json:
        print(json.dumps(planned.as_dict() | ({"estimate": estimated.as_dict()} if estimated else {}), indent=2))
    else:
        print_plan(space, planned, estimated, quiet=args.quiet)
    return OK


def _search(space: Space, args: argparse.Namespace) -> int:
    from co2l.search.service import search
    from co2l.search_progress import SearchProgress, print_outcome

    options = options_of(args, args.study or study_of(args.space), seed=args.seed)
    with SearchProgress(space, quiet=args.quiet or args.json) as progress, interruptible() as asked_to_stop:
        outcome = search(space, options, progress, asked_to_stop)
        interrupted = asked_to_stop()
    print_outcome(space, options, outcome, as_json=args.json)
    if interrupted:
        return INTERRUPTED
    return OK if outcome.choice.selected or outcome.left else FAILED


def _check(args: argparse.Namespace) -> None:
    if not (args.space or args.follow or args.stop):
        raise Co2lError("no space is given", fix="add --space FILE, as search_spaces/seq_digits.yaml")
    if args.submit is not None and args.plan:
        raise Co2lError("--plan is made here, not on the cluster", fix="leave --submit out")
    if args.probe and not args.plan:
        raise Co2lError("--probe is a part of the plan", fix="add --plan")
    if args.price is not None and not args.probe:
        raise Co2lError("--price needs an estimate of the hours", fix="add --probe")
    if args.price is not None and not 0 <= args.price < float("inf"):
        raise Co2lError(f"the price is {args.price}", where="--price", fix="give an amount per hour, from 0")
    if args.parallel < 1:
        raise Co2lError(f"{args.parallel} trials at once", where="--parallel", fix="give a number from 1")


if __name__ == "__main__":
    execute(main)
