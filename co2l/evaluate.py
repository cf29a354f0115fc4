"""python -m co2l.evaluate: the only door to test data: chosen configurations, all training data, several seeds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from co2l.console import FAILED, INTERRUPTED, OK, Parser, execute, interruptible
from co2l.engine_arguments import add_engine_arguments, options_of, storage_of, study_of, with_resources
from co2l.errors import Co2lError

if TYPE_CHECKING:
    from co2l.search.evaluation import Evaluation

EXAMPLE = """\
examples:
  python -m co2l.evaluate --study seq_digits --seeds 5
  python -m co2l.evaluate --config runs/selected/seq_digits.yaml
  python -m co2l.evaluate --space search_spaces/paper/digits/ird_ablation.yaml --seeds 3

FILE of --config is YAML or JSON with benchmark, method and settings, or a list of such; a result of co2l.train is
one. The same command again continues, or answers from the record; more seeds continue it too. The classifier of the
first seed is in MLflow's registry, under the study's or the file's name; models:/NAME@selected takes raw images.
exit codes: 0 done, 1 some cells failed, 2 wrong input or data, 130 interrupted (state saved)"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.evaluate",
        usage="python -m co2l.evaluate (--study NAME | --config FILE | --space FILE) [options]",
        description="Train chosen configurations on the full training set and test them.",
        epilog=EXAMPLE,
    )
    group = p.add_argument_group("what is evaluated")
    what = group.add_mutually_exclusive_group(required=True)
    what.add_argument("--study", metavar="NAME", help="what a search has selected")
    what.add_argument("--config", metavar="FILE", help="the configurations in a file")
    what.add_argument("--space", metavar="FILE", action="append", help="every cell of a space; repeatable")
    group.add_argument("--unfinished", action="store_true", help="with --study: although cells are left to run")
    group.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a setting; repeatable")
    group.add_argument("--seeds", type=int, default=10, metavar="N", help="seeds 0 to N-1 (default: 10)")
    group.add_argument("--name", help="of the evaluation (default: the study's or the file's, and .test)")
    group.add_argument("--plan", action="store_true", help="print what it would cost, and stop")
    add_engine_arguments(p)
    return p


def main() -> int:
    args = parser().parse_args()
    if args.seeds < 1:
        raise Co2lError(f"{args.seeds} seeds", where="--seeds", fix="give at least 1")
    if args.name and args.space and len(args.space) > 1:
        raise Co2lError("one name for several spaces", where="--name", fix="leave it out")
    # torch and Ray take seconds to import: --help and argument errors do not wait for them
    evaluations = {name: with_resources(each, args) for name, each in _evaluations(args).items()}
    if args.plan:
        return _plan(list(evaluations.values()), as_json=args.json)
    codes = [OK]
    for name, evaluation in evaluations.items():
        codes.append(_evaluate(name, evaluation, args))
        if codes[-1] == INTERRUPTED:  # those to come as well
            break
    return max(codes)


def _evaluations(args: argparse.Namespace) -> dict[str, Evaluation]:
    """What is evaluated, by the name that it has in the record without its ending."""
    from co2l.learning.config import parse_assignments
    from co2l.learning.results import Chosen, load_configurations
    from co2l.search.evaluation import of_configurations, of_space
    from co2l.search.space import load

    changes = parse_assignments(args.set)
    if args.space:
        spaces = [load(path) for path in args.space]
        spaces = [space.with_settings(changes) for space in spaces] if changes else spaces
        named = {study_of(path): of_space(space, args.seeds) for path, space in zip(args.space, spaces, strict=True)}
        if len(named) < len(spaces):
            raise Co2lError("two spaces have the same name", where="--space", fix="evaluate them one by one")
        return named
    if args.config:
        chosen, source, name = load_configurations(args.config), args.config, Path(args.config).stem
    else:
        chosen = [Chosen.model_validate(each) for each in _selected(args)]
        source, name = f"study '{args.study}'", args.study
    changed = [each.model_copy(update={"settings": {**each.settings, **changes}}) for each in chosen]
    return {name: of_configurations(changed, args.seeds, source)}


def _selected(args: argparse.Namespace) -> list[dict[str, object]]:
    from co2l.search.archive import Archive

    study = Archive(storage_of(args)).study(args.study)
    where = f"study '{args.study}'"
    if study.kind == "evaluation":
        raise Co2lError("is an evaluation and selects nothing", where=where, fix="give the study of a search")
    if study.left and not args.unfinished:
        fix = "finish it with co2l.tune, or add --unfinished to take the best so far"
        raise Co2lError(f"is not finished: {study.left} are left to run", where=where, fix=fix)
    choice = study.choice()
    if choice.missing:
        fix = "look at what failed with co2l.tune; a study needs one configuration with all its cells"
        raise Co2lError(f"has nothing selected ({choice.missing[0]})", where=where, fix=fix)
    return [each.as_dict(study.space) for each in choice.selected]


def _plan(evaluations: list[Evaluation], *, as_json: bool) -> int:
    from co2l.search.plan import plan, together
    from co2l.search_progress import print_plan

    plans, joint = [plan(each) for each in evaluations], together(evaluations)
    if as_json:
        print(json.dumps({"spaces": [each.as_dict() for each in plans], "together": joint.as_dict()}, indent=2))
        return OK
    for evaluation, planned in zip(evaluations, plans, strict=True):
        print_plan(evaluation, planned, None, quiet=True)
    if len(plans) > 1:
        alone = sum(each.first_stages for each in plans), sum(each.epochs_planned for each in plans)
        print("all of them, sharing the stages below one --root:")
        print(f"  first stages  {joint.first_stages:,} distinct, one after the other {alone[0]:,}")
        print(f"  epochs        {joint.epochs_planned:,}, one after the other {alone[1]:,}")
    return OK


def _evaluate(name: str, evaluation: Evaluation, args: argparse.Namespace) -> int:
    from co2l.search.service import search
    from co2l.search_progress import SearchProgress, print_evaluation

    options = options_of(args, args.name or f"{name}.test", model=None if args.space else name)
    with SearchProgress(evaluation, quiet=args.quiet or args.json) as progress, interruptible() as asked_to_stop:
        outcome = search(evaluation, options, progress, asked_to_stop)
        interrupted = asked_to_stop()
    print_evaluation(evaluation, options, outcome, as_json=args.json)
    if interrupted:
        return INTERRUPTED
    return FAILED if outcome.failed else OK


if __name__ == "__main__":
    execute(main)
