"""python -m co2l.tune: search the settings of a space with Ray Tune and Optuna, tracked in MLflow."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from co2l.cli.arguments import (
    add_engine_arguments,
    add_import_argument,
    check_targets,
    given_flags,
    options_of,
    protocol_of,
    sizes_of,
    storage_of,
    study_of,
    use_imports,
    with_resources,
)
from co2l.cli.console import FAILED, INTERRUPTED, OK, Parser, as_typed, creating, execute, interruptible
from co2l.cli.quantities import COUNT, SEED, real, whole
from co2l.data.root import data_below
from co2l.errors import Co2lError, unknown
from co2l.learning.cards import CARDS
from co2l.loading import loading
from co2l.names import check_name
from co2l.search.algorithms.registry import ALGORITHMS
from co2l.shipped import space_file

if TYPE_CHECKING:
    from co2l.search.record.earlier import Earlier
    from co2l.search.space.budget import Budget
    from co2l.search.space.estimate import Timing
    from co2l.search.space.memory import Memory
    from co2l.search.space.space import Space

EXAMPLE = """\
example: python -m co2l.tune --space search_spaces/seq_digits.yaml
Run it again to continue. exit codes: 0 done, 1 nothing could be selected, 2 wrong input or data, 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        help_says="show this help, with --space the settings of its methods too, and exit",
        below_help=_settings,
        prog="python -m co2l.tune",
        usage="python -m co2l.tune --space FILE [options]",
        description="Search the settings of a space. A search never reads the test set.",
        epilog=EXAMPLE,
    )
    what = p.add_argument_group("what to search")
    what.add_argument("--space", metavar="FILE", help="search space, such as search_spaces/seq_digits.yaml")
    what.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="override a setting; repeatable")
    what.add_argument("--protocol", metavar="NAME", help="instead of the space's: end, first_k=2, greedy, greedy=BEAM")
    what.add_argument("--algorithm", metavar="NAME", help=f"instead of the space's: {', '.join(ALGORITHMS.own())}")
    what.add_argument("--samples", type=COUNT, metavar="N", help="how many configurations to draw; not for a grid")
    what.add_argument("--from-study", metavar="NAME", help="begin with the best of an earlier study of this root")
    what.add_argument("--budget", metavar="AMOUNT", help="train no more than 5000epochs, 40gpuh or 30eur@1.2 (an hour)")
    what.add_argument("--early-stop", choices=["on", "off"], help="stop weak trials at task boundaries")
    what.add_argument("--seed", type=whole(0, SEED), default=0, help="seed of the algorithm (default: 0)")
    add_import_argument(what)
    plan = p.add_argument_group("what it costs")
    plan.add_argument("--plan", action="store_true", help="print what the search would cost, and stop")
    plan.add_argument("--measure", action="store_true", help="with --plan: time a few steps to estimate hours")
    plan.add_argument("--on", metavar="CARD", help="with --plan: forecast the hours on a10g, a100, h100, …")
    plan.add_argument("--price", type=real(0, 1e9), metavar="AMOUNT", help="with either: price of the machines an hour")
    plan.add_argument("--parallel", type=COUNT, default=1, metavar="N", help="with either: trials at once (default: 1)")
    where = add_engine_arguments(p)
    where.title = f"{where.title} ($CO2L_ROOT, _STORE, _STORAGE, _TRACKING_URI and _CLUSTER set defaults)"
    where.add_argument("--study", metavar="NAME", help="name of the study (default: that of the space's file)")
    url = "(URL: $CO2L_CLUSTER or http://127.0.0.1:8265)"
    where.add_argument("--submit", nargs="?", const="", metavar="URL", help=f"run it on a cluster {url}")
    where.add_argument("--follow", metavar="STUDY", help="show the output of a submitted search until it ends")
    where.add_argument("--stop", metavar="STUDY", help="stop a submitted search after it saves its checkpoints")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Those of the command line, unless some are given."""
    args = parser().parse_args(arguments)
    _check(args)
    if args.follow or args.stop:
        return _attend(args)
    with data_below(args.data):
        if args.plan or args.submit is not None:
            space = _space(args)
            return _plan(space, args) if args.plan else _submit(args)
        return _search(args)


def check(arguments: Sequence[str]) -> None:
    """An error for what a search with these words would refuse before it begins."""
    args = parser().parse_args(arguments)
    _check(args)
    with data_below(args.data):
        _space(args)
        _study(args)


def _settings(args: argparse.Namespace) -> str:
    """Those of all methods of the space that was given, if one was."""
    if args.space is None:
        return ""
    from co2l.cli.method_settings import help_on_settings

    with data_below(args.data):
        space = _space(args)
        return "\n".join(help_on_settings(method, space.benchmark) for method in space.methods_tried)


def _study(args: argparse.Namespace) -> str:
    """The name that is given, or the file's; with --protocol, that follows."""
    return args.study or "-".join([study_of(args.space), *([args.protocol.partition("=")[0]] if args.protocol else [])])


def _submit(args: argparse.Namespace) -> int:
    from co2l.cluster.jobs import submit
    from co2l.imports import active

    ours = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--space", "--study", "--import"):
        ours.add_argument(name)
    ours.add_argument("--submit", nargs="?")
    _, arguments = ours.parse_known_args()
    study = _study(args)
    submit(_cluster(args), study, space_file(args.space), arguments, active())
    follow = f"{as_typed('python -m co2l.tune')} --follow {study}"
    print(study if args.quiet else f"submitted: {study}\nfollow it with: {follow}")
    return OK


def _attend(args: argparse.Namespace) -> int:
    from co2l.cluster.jobs import follow, stop

    if args.stop:
        running = stop(_cluster(args), args.stop)
        print(f"stopping {args.stop}; submit it again to continue" if running else f"{args.stop} has already ended")
        return OK
    state = follow(_cluster(args), args.follow, lambda text: print(text, end="", flush=True))
    return {"succeeded": OK, "failed": FAILED, "stopped": INTERRUPTED, "running": INTERRUPTED}[state]


def _cluster(args: argparse.Namespace) -> str:
    import os

    from co2l.cluster.jobs import LOCAL

    return args.submit or os.environ.get("CO2L_CLUSTER") or LOCAL


def _space(args: argparse.Namespace) -> Space:
    """The space in the file, as the flags change it."""
    # torch and Ray take seconds to import: --help and argument errors do not wait for them
    with loading():
        from co2l.learning.config import parse_assignments
        from co2l.search.space.space import load

    use_imports(args)
    space = load(args.space, protocol=protocol_of(args.protocol))
    if args.set:
        space = space.with_settings(parse_assignments(args.set))
    keys = {"algorithm": args.algorithm, "samples": args.samples}
    if args.early_stop:
        keys["early_stop"] = args.early_stop == "on"
    if given := {name: value for name, value in keys.items() if value is not None}:
        space = space.replace(**given, where="--" + ", --".join(given).replace("_", "-"))
    return with_resources(space, args)


def _plan(space: Space, args: argparse.Namespace) -> int:
    from co2l.cli.display import Display
    from co2l.cli.plan import Planned, PlanProgress, print_plan
    from co2l.search.space.estimate import estimate
    from co2l.search.space.plan import plan
    from co2l.search.space.space_advice import gpu_advice, space_advice

    with PlanProgress(quiet=args.quiet or args.json or not args.measure) as progress:
        timing, estimated = _timing(space, args), None
        if timing:
            estimated = estimate(space, timing, parallel=args.parallel, price=args.price, progress=progress.timing)
        planned = Planned(space, plan(space), _memory(space), estimated, args.on, _earlier(space, args))
    if args.json:
        print(json.dumps(planned.as_dict(), indent=2))
    else:
        print_plan(planned, quiet=args.quiet)
        with Display(quiet=args.quiet) as display:
            display.warn(gpu_advice(space.resources.gpus) if args.address is None and not args.on else [])
            display.warn(space_advice(space, sizes_of(space, args) if args.measure else ()))
    return OK


def _earlier(space: Space, args: argparse.Namespace) -> Earlier | None:
    """What the search begins with of another study, if it does."""
    from co2l.search.algorithms.earlier import taken

    if args.from_study is None:
        return None
    return taken(space, storage_of(args), _study(args), args.from_study, fresh=args.fresh)


def _memory(space: Space) -> Memory | Co2lError:
    """Of its trials; a plan is worth having without it."""
    from co2l.search.space.memory import memory

    try:
        return memory(space)
    except Co2lError as error:
        return error


def _timing(space: Space, args: argparse.Namespace) -> Timing | None:
    """How long a step takes: measured here, forecast for a card, or not asked for."""
    if args.on:
        from co2l.learning.cards import card
        from co2l.search.space.forecast import forecast

        return forecast(card(args.on, where="--on"), space.resources.gpus)
    if args.measure:
        from co2l.data.root import data_root
        from co2l.learning.device import choose_device, device_for
        from co2l.search.space.estimate import measured

        return measured(data=data_root(), device=choose_device(device_for(space.resources.gpus)))
    return None


def _search(args: argparse.Namespace) -> int:
    from co2l.cli.display import Display
    from co2l.search.running.local_ray import early_ray
    from co2l.search.space.space_advice import require_gpu, space_advice

    with creating(args.umask), ExitStack() as held:
        with Display(quiet=args.quiet or args.json) as display:
            display.doing(f"reading {args.space}", checking=True)
            if args.address is None:
                require_gpu(args.space, args.gpus_per_trial)
            space = _space(args)
            study = _study(args)  # a name that is none is refused before anything is written
            check_targets(args)
            display.doing(f"{space.method_title} on {space.benchmark}: loading Ray and MLflow")  # which takes seconds
            early = held.enter_context(early_ray(args.address))
            with loading():
                from co2l.cli.outcome import print_search
                from co2l.cli.search_progress import SearchProgress, why_more_trials
                from co2l.search.service import search

            options = options_of(args, study, early, seed=args.seed, budget=_budget(args), from_study=args.from_study)
            display.warn(space_advice(space, sizes_of(space, args)))
            if why := why_more_trials(space):
                display.note(f"{(space.samples or 0) * space.trials_per_point} trials{why}")
            progress = SearchProgress(display, space, verbose=args.verbose)
            with interruptible() as asked_to_stop:
                display.stops_when(asked_to_stop)
                result = search(space, options, progress, asked_to_stop)
                interrupted = asked_to_stop()
        print_search(space, options, result, flags=given_flags(args), as_json=args.json)
    if interrupted and result.summary.left:  # else there is nothing to continue
        return INTERRUPTED
    return OK if result.choice.selected or result.summary.left else FAILED


def _budget(args: argparse.Namespace) -> Budget | None:
    from co2l.search.space.budget import Budget

    return Budget.parse(args.budget) if args.budget is not None else None


def _check(args: argparse.Namespace) -> None:
    for flag in ("study", "from-study", "follow", "stop"):
        if (name := getattr(args, flag.replace("-", "_"))) is not None:  # an empty name too
            check_name(name, f"--{flag}")
    if not (args.space or args.follow or args.stop):
        raise Co2lError("no space is given", fix="add --space FILE, such as search_spaces/seq_digits.yaml")
    _budget(args)
    if args.algorithm and not args.imports:  # which may add it
        ALGORITHMS.find(args.algorithm, where="--algorithm")
    if args.submit is not None and args.plan:
        raise Co2lError("--plan runs here, not on the cluster", fix="leave out --submit")
    for flag in ("measure", "on"):
        if getattr(args, flag) and not args.plan:
            raise Co2lError(f"--{flag} is part of the plan", fix="add --plan")
    if args.measure and args.on:
        raise Co2lError("--measure times this machine, --on forecasts another", fix="leave out one of them")
    if args.on and args.on.lower() not in CARDS:
        raise unknown("card", args.on, CARDS, where="--on")
    if args.price is not None and not (args.measure or args.on):
        raise Co2lError("--price needs an estimate of the hours", fix="add --measure or --on CARD")


if __name__ == "__main__":
    execute(main)
