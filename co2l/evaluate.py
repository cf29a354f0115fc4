"""python -m co2l.evaluate: test chosen configurations over several seeds. Only this command reads the test set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from co2l.cli.arguments import (
    add_engine_arguments,
    add_import_argument,
    check_targets,
    given_flags,
    options_of,
    sizes_of,
    storage_of,
    study_of,
    use_imports,
    with_resources,
)
from co2l.cli.console import FAILED, INTERRUPTED, OK, Parser, creating, execute, interruptible
from co2l.cli.quantities import whole
from co2l.data.root import data_below
from co2l.errors import Co2lError
from co2l.loading import loading
from co2l.names import check_name

if TYPE_CHECKING:
    from co2l.search.running.local_ray import LocalRay
    from co2l.search.space.evaluation import Evaluation

EXAMPLE = """\
examples:
  python -m co2l.evaluate --study seq_digits --seeds 5
  python -m co2l.evaluate --study seq_digits --seeds 5 --orders 3
  python -m co2l.evaluate --config runs/selected/seq_digits.yaml
  python -m co2l.evaluate --space search_spaces/paper/digits/ird_ablation.yaml --seeds 3

FILE of --config is YAML or JSON with benchmark, method and settings, or a list of these; a result of co2l.train works
too. Run the same command again to continue, to add seeds, or to get the answers from the record. The classifier of the
first seed goes to MLflow's registry under the name of the study or file; models:/NAME@selected takes raw images.
Whether two evaluated configurations differ: python -m co2l.report --compare NAME:key=value,… NAME:key=value,…
exit codes: 0 done, 1 some trials failed, 2 wrong input or data, 130 interrupted (checkpoint saved)"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.evaluate",
        usage="python -m co2l.evaluate (--study NAME | --config FILE | --space FILE) [options]",
        description="Train chosen configurations on the full training set and test them.",
        epilog=EXAMPLE,
    )
    group = p.add_argument_group("what to evaluate")
    what = group.add_mutually_exclusive_group(required=True)
    what.add_argument("--study", metavar="NAME", help="what a search selected")
    what.add_argument("--config", metavar="FILE", help="the configurations in a file")
    what.add_argument("--space", metavar="FILE", action="append", help="every trial of a space; repeatable")
    group.add_argument("--unfinished", action="store_true", help="with --study: even if trials are left to run")
    group.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a setting; repeatable")
    group.add_argument("--seeds", type=whole(1, 10_000), default=10, metavar="N", help="seeds 0 to N-1 (default: 10)")
    group.add_argument("--orders", type=whole(1, 10_000), metavar="N", help="in each of the class orders 0 to N-1")
    group.add_argument("--name", help="name of the evaluation (default: that of the study or file, plus .test)")
    add_import_argument(group)
    group.add_argument("--plan", action="store_true", help="print what it would cost, and stop")
    add_engine_arguments(p)
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Those of the command line, unless some are given."""
    args = parser().parse_args(arguments)
    for flag in ("study", "name"):
        if (name := getattr(args, flag)) is not None:
            check_name(name, f"--{flag}")
    if args.orders is not None and args.space:
        fix = "add axes: {class_order: [0, 1, 2]} to the space"
        raise Co2lError("orders of a space are one of its axes", where="--orders", fix=fix)
    if args.name and args.space and len(args.space) > 1:
        raise Co2lError("one name for several spaces", where="--name", fix="leave it out")
    with data_below(args.data):
        return _plan(list(_evaluations(args).values()), as_json=args.json) if args.plan else _run(args)


def _run(args: argparse.Namespace) -> int:
    from co2l.cli.display import Display
    from co2l.search.running.local_ray import early_ray

    codes = [OK]
    with creating(args.umask), ExitStack() as held:
        with Display(quiet=args.quiet or args.json) as display:
            display.doing(f"reading {args.study or args.config or ', '.join(args.space)}", checking=True)
            evaluations = _evaluations(args)
            check_targets(args)
        early = held.enter_context(early_ray(args.address, len(evaluations)))  # one for all of them
        for name, evaluation in evaluations.items():
            codes.append(_evaluate(name, evaluation, args, early))
            if codes[-1] == INTERRUPTED:  # do not start the others
                break
    return max(codes)


def _evaluations(args: argparse.Namespace) -> dict[str, Evaluation]:
    """What to evaluate, by its name in the record without the ending, with the resources given by flags."""
    return {name: with_resources(each, args) for name, each in _chosen(args).items()}


def _chosen(args: argparse.Namespace) -> dict[str, Evaluation]:
    # torch and Ray take seconds to import: --help and argument errors do not wait for them
    with loading():
        from co2l.learning.config import parse_assignments
        from co2l.learning.results import Chosen, load_configurations
        from co2l.search.space.evaluation import of_configurations, of_space
        from co2l.search.space.space import load

    use_imports(args)
    changes = parse_assignments(args.set)
    if args.space:
        spaces = [load(path) for path in args.space]
        spaces = [space.with_settings(changes) for space in spaces] if changes else spaces
        named = {study_of(path): of_space(space, args.seeds) for path, space in zip(args.space, spaces, strict=True)}
        if len(named) < len(spaces):
            raise Co2lError("two spaces have the same name", where="--space", fix="evaluate them one by one")
        return named
    if args.config is not None:
        chosen, source = load_configurations(args.config), args.config
        name = check_name(Path(args.config).stem, f"the name of {args.config}")
    else:
        chosen = [Chosen.model_validate(each) for each in _selected(args)]
        source, name = f"study '{args.study}'", args.study
    changed = [each.model_copy(update={"settings": {**each.settings, **changes}}) for each in chosen]
    return {name: of_configurations(changed, args.seeds, source, args.orders)}


def _selected(args: argparse.Namespace) -> list[dict[str, object]]:
    from co2l.search.record.reader import StudyReader
    from co2l.search.selection.rule import runnable, select

    study = StudyReader(storage_of(args)).study(args.study)
    where = f"study '{args.study}'"
    if study.kind == "evaluation":
        raise Co2lError("is an evaluation and selects nothing", where=where, fix="give the study of a search")
    if study.left and not args.unfinished:
        fix = "finish it with co2l.tune, or add --unfinished to take the best so far"
        raise Co2lError(f"is not finished: {study.left} are left to run", where=where, fix=fix)
    choice = select(study.space, study.entries.values())
    if choice.missing:
        fix = "see what failed with co2l.tune; a study needs one configuration whose trials are all done"
        raise Co2lError(f"has nothing selected ({choice.missing[0]})", where=where, fix=fix)
    return runnable(study.space, choice)


def _plan(evaluations: list[Evaluation], *, as_json: bool) -> int:
    from co2l.cli.plan import Planned, print_plan
    from co2l.search.space.plan import plan, together

    plans, joint = [plan(each) for each in evaluations], together(evaluations)
    if as_json:
        print(json.dumps({"spaces": [each.as_dict() for each in plans], "together": joint.as_dict()}, indent=2))
        return OK
    for evaluation, planned in zip(evaluations, plans, strict=True):
        print_plan(Planned(evaluation, planned), quiet=True)
    if len(plans) > 1:
        alone = sum(each.first_stages for each in plans), sum(each.epochs_planned for each in plans)
        print("all of them, sharing the stages below one --root:")
        print(f"  first stages  {joint.first_stages:,} distinct, one after the other {alone[0]:,}")
        print(f"  epochs        {joint.epochs_planned:,}, one after the other {alone[1]:,}")
    return OK


def _evaluate(name: str, evaluation: Evaluation, args: argparse.Namespace, early: LocalRay | None) -> int:
    from co2l.cli.display import Display

    with Display(quiet=args.quiet or args.json) as display:
        display.doing(f"evaluating {name}")  # what is imported from here on takes seconds
        with loading():
            from co2l.cli.outcome import print_evaluation
            from co2l.cli.search_progress import SearchProgress
            from co2l.search.service import evaluate
            from co2l.search.space.space_advice import gpu_advice, space_advice

        options = options_of(args, args.name or f"{name}.test", early, model=None if args.space else name)
        display.warn(gpu_advice(evaluation.resources.gpus) if args.address is None else [])
        display.warn(space_advice(evaluation, sizes_of(evaluation, args)))
        progress = SearchProgress(display, evaluation, verbose=args.verbose)
        with interruptible() as asked_to_stop:
            display.stops_when(asked_to_stop)
            result = evaluate(evaluation, options, progress, asked_to_stop)
            interrupted = asked_to_stop()
    report, flags = args.study or options.study, given_flags(args)
    print_evaluation(evaluation, options, result, report=report, flags=flags, as_json=args.json)
    if interrupted:
        return INTERRUPTED
    return FAILED if result.summary.failed else OK


if __name__ == "__main__":
    execute(main)
