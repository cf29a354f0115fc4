"""python -m co2l.tune: search the settings of a space; so far only its plan, which says what the search would cost."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from co2l.console import OK, execute
from co2l.errors import Co2lError

if TYPE_CHECKING:
    from co2l.search.plan import Estimate, Plan
    from co2l.search.space import Space

EXAMPLE = """\
example:
  python -m co2l.tune --space search_spaces/seq_digits.yaml --plan --probe --price 1.20

--plan counts cells, distinct stages and epochs, and trains nothing. --probe adds hours on this machine from a few
timed training steps for every batch size, and with --price money.
exit codes: 0 done, 2 wrong input or data, 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m co2l.tune",
        description="Search the settings of a space.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--space", required=True, metavar="FILE", help="search space, as search_spaces/seq_digits.yaml")
    p.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="override a setting; repeatable")
    p.add_argument("--plan", action="store_true", help="print what the search would cost, and stop")
    p.add_argument("--probe", action="store_true", help="with --plan: time a few steps to estimate hours")
    p.add_argument("--price", type=float, metavar="AMOUNT", help="with --probe: price of the machines per hour")
    p.add_argument("--parallel", type=int, default=1, metavar="N", help="with --probe: trials at once (default: 1)")
    p.add_argument("--data", help="folder of the datasets (default: $CO2L_DATA or ./data)")
    p.add_argument("--quiet", action="store_true", help="no explanations, only the result")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    _check(args)
    # torch takes seconds to import: --help and argument errors do not wait for it
    from co2l.data.sources import data_root
    from co2l.learning.config import parse_assignments
    from co2l.learning.device import choose_device
    from co2l.search.plan import estimate, plan
    from co2l.search.space import load

    space = load(args.space)
    if args.set:
        space = space.with_settings(parse_assignments(args.set))
    if not args.plan:
        raise Co2lError("the search itself is not part of this version yet", fix="add --plan to see what it would cost")
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


def _check(args: argparse.Namespace) -> None:
    if args.probe and not args.plan:
        raise Co2lError("--probe is a part of the plan", fix="add --plan")
    if args.price is not None and not args.probe:
        raise Co2lError("--price needs an estimate of the hours", fix="add --probe")
    if args.price is not None and not 0 <= args.price < float("inf"):
        raise Co2lError(f"the price is {args.price}", where="--price", fix="give an amount per hour, from 0")
    if args.parallel < 1:
        raise Co2lError(f"{args.parallel} trials at once", where="--parallel", fix="give a number from 1")


def print_plan(space: Space, plan: Plan, estimate: Estimate | None, *, quiet: bool) -> None:
    about = "" if plan.exact else "at most " if space.algorithm == "grid" else "about "
    rows = [
        ("cells", f"{plan.cells:,}"),
        ("first stages", f"{about}{plan.first_stages:,} distinct"),
        ("stages", f"{about}{plan.stages:,} distinct"),
        ("epochs", f"{about}{plan.epochs_planned:,}, without reuse {plan.epochs_naive:,} ({plan.ratio:.2f} times)"),
    ]
    if estimate:
        rows += [
            ("training", f"{_time(estimate.trial_hours)}, without reuse {_time(estimate.trial_hours_naive)}"),
            ("duration", f"{_time(estimate.hours)} with {estimate.parallel} at once"),
        ]
        if estimate.money is not None:
            rows += [("price", f"{estimate.money:,.2f} at {estimate.price:,.2f} an hour")]
    print(f"{space.source}: {space.method} on {space.benchmark}, {space.algorithm}")
    for name, text in rows:
        print(f"  {name:<13} {text}")
    if quiet:
        return
    if space.algorithm != "grid":
        print(f"The cells are a random draw of {space.samples} samples; {space.algorithm} will draw others.")
    if estimate:
        from co2l.search.plan import LEFT_OUT

        print(f"The time is an estimate from {LEFT_OUT}.")
        for timed in estimate.timed:
            if timed.batch < timed.settings["batch_size"]:
                print(f"Steps of {timed.settings['batch_size']} samples are too slow here: {timed.batch} were timed.")


def _time(hours: float) -> str:
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.1f} min" if hours * 60 >= 1 else f"{hours * 3600:.1f} s"


if __name__ == "__main__":
    execute(main)
