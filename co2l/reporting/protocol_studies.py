"""From studies to results of selection protocols: what each search selected, what that cost, and how it was tested.

Hours are epochs times what an epoch of the same method and benchmark has taken on average over all studies here, linear
evaluations included: what a study itself took depends on which stages the store already had.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from co2l.errors import Co2lError, unknown
from co2l.learning.config import RunConfig
from co2l.learning.metrics import reported
from co2l.reporting.crossed import Run
from co2l.reporting.protocols import SCORE, Effort, ProtocolResult
from co2l.reporting.search_cost import Finished, best_so_far
from co2l.search.record.choosing import choosing, finished_stages
from co2l.search.record.entries import ENDED, Cost, Entry
from co2l.search.record.reader import StoredStudy, StudyReader
from co2l.search.selection.rule import Selected, select
from co2l.search.space.document import METHOD, Value
from co2l.search.space.naming import named
from co2l.search.space.protocol import unseen
from co2l.search.space.space import Configuration, Space
from co2l.search.space.transfer import transferred

TO_RUN = "python -m co2l.protocols --space FILE"
TEST = ".test"
ORDER = "class_order"

Group = tuple[Value, ...]  # the values of the axes that a search selects per
Rates = Mapping[tuple[str, str], float]  # hours per epoch, by benchmark and method


def results(reader: StudyReader, names: Sequence[str] = (), *, root: str) -> list[ProtocolResult]:
    """A result for each search, or for the named ones, and each group that it selected for."""
    known = reader.names()
    for name in names:
        if name not in known:
            raise unknown("study", name, known, where="--study")
    studies = dict(_read(reader, [name for name in known if not names or name.removesuffix(TEST) in names], names))
    rates = _rates(studies.values())
    return [
        result
        for name, study in studies.items()
        if study.kind == "search"
        for result in _of_search(study, studies.get(f"{name}{TEST}"), rates, root)
    ]


def _read(reader: StudyReader, wanted: Iterable[str], named: Sequence[str]) -> Iterable[tuple[str, StoredStudy]]:
    """Studies of other versions are left out, unless they are named."""
    for name in wanted:
        try:
            yield name, reader.study(name)
        except Co2lError:
            if name in named:
                raise


def _rates(studies: Iterable[StoredStudy]) -> Rates:
    costs: dict[tuple[str, str], Cost] = defaultdict(Cost)
    for study in studies:
        for entry in study.entries.values():
            costs[study.space.benchmark, study.space.method_of(entry.values)] += entry.cost
    return {name: cost.hours / cost.epochs_trained for name, cost in costs.items() if cost.epochs_trained}


def _of_search(study: StoredStudy, test: StoredStudy | None, rates: Rates, root: str) -> list[ProtocolResult]:
    space = study.space
    by_group: dict[Group, list[Entry]] = defaultdict(list)
    for entry in study.entries.values():
        by_group[_group(space, entry.values)].append(entry)
    chosen = {_group(space, each.values): each for each in select(space, study.entries.values()).selected}
    return [_result(study, entries, chosen.get(group), test, rates, root) for group, entries in by_group.items()]


def _group(space: Space, values: Mapping[str, Value]) -> Group:
    return tuple(values[name] for name in space.selection.per)


def _result(
    study: StoredStudy,
    entries: Sequence[Entry],
    chosen: Selected | None,
    test: StoredStudy | None,
    rates: Rates,
    root: str,
) -> ProtocolResult:
    space, protocol = study.space, study.space.selection.protocol
    method = space.method_of(entries[0].values)
    tested_on = protocol.transfer.to if protocol.transfer else space.benchmark
    wanted = _settings(space, chosen) if chosen else {}
    runs = list(_runs(test, method, wanted)) if test and chosen else []
    epochs = choosing(space, entries).epochs
    once = round(sum(sum(config.epochs) for config, _ in runs) / len(runs)) if runs else 0
    return ProtocolResult(
        benchmark=space.benchmark,
        tested_on=tested_on,
        method=method,
        protocol=str(protocol),
        configuration=hashlib.sha256(repr((tested_on, method, sorted(wanted.items()))).encode()).hexdigest()[:16],
        accuracies=dict(sorted(_accuracies(runs).items(), key=repr)),
        choosing=Effort(epochs, epochs * rates.get((space.benchmark, method), 0.0)),
        training=Effort(once, once * rates.get((tested_on, method), 0.0)),
        curve=_curve(space, entries),
        group=named({name: entries[0].values[name] for name in space.selection.per if name != METHOD}),
        chosen=_named(space, chosen) if chosen else "",
        unseen=tuple(unseen(space)),
        command=f"python -m co2l.evaluate --study {study.name} --root {root}",
        left=study.left,
        studies=(study.name, *([test.name] if test else ())),
    )


def _named(space: Space, chosen: Selected) -> str:
    """The values of the axes that were chosen between."""
    left = {METHOD, *space.selection.per, *space.selection.mean_over}
    return named({name: value for name, value in chosen.values.items() if name not in left})


def _settings(space: Space, chosen: Selected) -> dict[str, Any]:
    """What was chosen, where it is tested; the order of classes is no choice."""
    if space.selection.protocol.transfer:
        return _without_order(transferred(space, chosen.values))
    return {name: value for name, value in chosen.settings.items() if name != ORDER}


def _without_order(config: RunConfig) -> dict[str, Any]:
    return {name: value for name, value in config.as_dict()["settings"].items() if name != ORDER}


def _runs(test: StoredStudy, method: str, wanted: Mapping[str, Any]) -> Iterable[tuple[RunConfig, Mapping[str, Any]]]:
    """The finished runs of what was chosen, each with its result."""
    for entry in test.entries.values():
        config = test.space.trial(entry.values, entry.seed).config
        if entry.result is not None and config.method == method and _without_order(config) == wanted:
            yield config, entry.result


def _accuracies(runs: Iterable[tuple[RunConfig, Mapping[str, Any]]]) -> dict[Run, dict[str, float]]:
    return {
        (config.seed, config.settings.class_order): {**reported(result), SCORE: result["score"]}
        for config, result in runs
    }


def _curve(space: Space, entries: Sequence[Entry]) -> tuple[tuple[int, float], ...]:
    """A configuration has its score once all of its trials have ended; a state of a greedy search has none."""
    scores: dict[Configuration, list[float]] = defaultdict(list)
    finished = []
    for entry in entries:
        name, score = space.configuration(entry.values), None
        searched = entry.seed in space.seeds and space.is_whole(entry.values)  # a race tries others
        if entry.status == "done" and entry.score is not None and searched:
            scores[name].append(entry.score)
            if len(scores[name]) == space.trials_per_point:
                score = sum(scores[name]) / space.trials_per_point
        if entry.status in ENDED:
            finished.append(Finished(finished_stages(space.trial(entry.values, entry.seed), entry), score))
    return best_so_far(finished)
