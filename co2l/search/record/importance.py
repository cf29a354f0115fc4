"""How much each axis of a search matters: its share of the variance of the scores, by one evaluator for everyone."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from co2l.search.record.entries import Entry, of_seeds
from co2l.search.record.storage import optuna_study
from co2l.search.space.document import Value
from co2l.search.space.space import Space

EVALUATOR = "fANOVA"


def importance(space: Space, entries: Iterable[Entry]) -> dict[str, float]:
    """Each axis's share, the largest first; empty for too few results.

    The axes under `selection` are not chosen but given, so the shares are computed for each of their values and
    averaged: how much a larger buffer brings says nothing about what to choose for it.
    """
    ranked = [name for name in space.axes if name not in given(space)]
    groups: dict[tuple[Value, ...], list[Entry]] = defaultdict(list)
    searched = of_seeds(entries, space.seeds)  # a race has more of the best
    for entry in sorted(searched, key=_described):  # the same numbers, whichever trial ended first
        if entry.status == "done" and space.is_whole(entry.values):
            groups[tuple(entry.values[name] for name in given(space))].append(entry)
    shares = [found for group in groups.values() if (found := _shares(space, ranked, group))]
    if not shares:
        return {}
    means = {name: statistics.fmean(each[name] for each in shares) for name in ranked}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def given(space: Space) -> tuple[str, ...]:
    """The axes that importance is conditioned on."""
    return (*space.selection.per, *space.selection.mean_over)


def described(space: Space) -> str:
    """What the numbers are, as axes and captions name it."""
    within = f", for each {' and '.join(given(space))}" if given(space) else ""
    return f"share of the variance of {space.objective} ({EVALUATOR}{within})"


def _described(entry: Entry) -> tuple[str, int]:
    """By what the trial is; its key changes with the program's version."""
    return str(sorted(entry.values.items())), entry.seed


def _shares(space: Space, ranked: list[str], entries: Sequence[Entry]) -> Mapping[str, float]:
    scores = {entry.score for entry in entries}
    points = {tuple(entry.values[name] for name in ranked) for entry in entries}
    if len(scores) < 2 or len(points) < 2:  # scores of one point differ by their seeds
        return {}
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances  # takes a second to load

    study = optuna_study(space, entries, ranked)
    try:
        return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), params=ranked)
    except RuntimeError:  # "zero total variance": the points do not differ
        return {}
