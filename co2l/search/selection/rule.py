"""The paper's rule: select the configuration with the highest validation accuracy, averaged over its trials.

What that accuracy is, and after which task, the space's protocol says; a greedy one selects a path.
`per` selects for each value of its axes, `mean_over` selects one configuration for all values of its axes, both over
all seeds. A configuration that lacks a trial cannot be selected, and is named in `left_out`. After a race
(`co2l.search.selection.race`) one of its last heat is selected, by the mean over all seeds so far.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from co2l.errors import headline
from co2l.files import write_atomic
from co2l.learning.metrics import probe_title
from co2l.search.record.choosing import Choosing
from co2l.search.record.entries import Entry, Status, of_seeds
from co2l.search.selection.race import Raced, Runner, finalists, raced
from co2l.search.space.document import Range, Value
from co2l.search.space.naming import named
from co2l.search.space.rounds import Point, rounds
from co2l.search.space.space import Configuration, Space
from co2l.search.space.transfer import transferred

LISTED = 3  # of the configurations that cannot be told from the selected one; the others are counted


@dataclass(frozen=True)
class Outcome:
    """How all trials of one configuration ended."""

    configuration: Configuration
    status: Status  # done only if every trial is; failed, pruned or paused if one is
    score: float  # mean over its trials: of their results if done, at the rung if pruned, else 0
    tasks: int  # after how many tasks it was stopped, if it was
    entries: tuple[Entry, ...]
    further: tuple[Entry, ...] = ()  # its trials in a race, with other seeds


@dataclass(frozen=True)
class Margin:
    """How sure a selection is."""

    candidates: int = 1  # finished configurations that it was the best of
    lead: float | None = None  # how far its score is above the second best's; None if there is no second
    second: Mapping[str, Value] = field(default_factory=dict)  # the values of that one
    std: float | None = None  # sample standard deviation of the score over its seeds; one seed has none
    race: Raced | None = None  # if there was one

    def as_dict(self) -> dict[str, Any]:
        plain = {"candidates": self.candidates, "lead": self.lead, "second": dict(self.second), "std": self.std}
        return {**plain, "race": self.race.as_dict()} if self.race else plain


@dataclass(frozen=True)
class Selected:
    """A selected configuration, complete and ready to run."""

    group: Mapping[str, Value]  # the values of the axes under `per` or `mean_over` that it was selected for
    score: float  # what it was selected by: with `mean_over`, the mean over all values of those axes
    values: Mapping[str, Value]  # of all axes
    settings: Mapping[str, Any]  # complete, defaults included
    trials: tuple[str, ...]  # the keys of its trials, one for every seed
    accuracies: Mapping[str, float] = field(default_factory=dict)  # in percent per scenario, the mean over its trials
    probe: str = ""  # who measured them, as people read it
    margin: Margin = field(default_factory=Margin)
    seeds: tuple[int, ...] = ()  # of its trials: the space's, and those of a race

    def as_dict(self, space: Space) -> dict[str, Any]:
        """What `co2l.evaluate` needs to run it, where it is to be evaluated, and how it came to be selected."""
        benchmark, settings = space.benchmark, dict(self.settings)
        if transfer := space.selection.protocol.transfer:
            benchmark, settings = transfer.to, transferred(space, self.values).as_dict()["settings"]
        return {
            "benchmark": benchmark,
            "method": space.method_of(self.values),
            "settings": settings,
            "score": self.score,
            "accuracies": dict(self.accuracies),
            "margin": self.margin.as_dict(),
            "group": dict(self.group),
            "seeds": list(self.seeds),
            "trials": list(self.trials),
        }


@dataclass(frozen=True)
class Choice:
    selected: tuple[Selected, ...]
    left_out: tuple[str, ...]  # a line for each configuration that was begun but lacks a result
    missing: tuple[str, ...]  # a line for each value of `per` for which nothing could be selected


def outcomes(space: Space, entries: Iterable[Entry]) -> list[Outcome]:
    """The configurations of which a trial was begun, in that order."""
    by_configuration: dict[Configuration, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_configuration[space.configuration(entry.values)].append(entry)
    return [_outcome(space, name, group) for name, group in by_configuration.items()]


def _outcome(space: Space, name: Configuration, every: Sequence[Entry]) -> Outcome:
    entries = tuple(of_seeds(every, space.seeds))
    further = tuple(entry for entry in every if entry.seed not in space.seeds)
    return replace(_searched(space, name, entries), further=further)


def _searched(space: Space, name: Configuration, entries: tuple[Entry, ...]) -> Outcome:
    if any(entry.status == "failed" for entry in entries):
        return Outcome(name, "failed", 0.0, 0, entries)
    if stopped := [max(entry.rungs, default=0) for entry in entries if entry.status == "pruned"]:
        scores = [entry.rungs[min(stopped)] for entry in entries if min(stopped) in entry.rungs]
        return Outcome(name, "pruned", _mean(scores), min(stopped), entries)
    scores = [entry.score for entry in entries if entry.score is not None]
    if len(scores) == space.trials_per_point:
        return Outcome(name, "done", _mean(scores), 0, entries)
    if paused := [max(entry.rungs, default=0) for entry in entries if entry.status == "paused"]:
        return Outcome(name, "paused", 0.0, min(paused), entries)
    return Outcome(name, "running", 0.0, 0, entries)


def runner(space: Space, outcome: Outcome) -> Runner:
    """It and its scores, by the seeds with which all its trials are finished."""
    by_seed: dict[int, list[float]] = defaultdict(list)
    for entry in (*outcome.entries, *outcome.further):
        if entry.score is not None:
            by_seed[entry.seed].append(entry.score)
    whole = space.trials_per_point // len(space.seeds)
    return Runner(outcome.configuration, {s: _mean(found) for s, found in by_seed.items() if len(found) == whole})


def group(space: Space, chosen: Configuration) -> tuple[Value, ...]:
    """The values of the axes that the selection selects per."""
    per = space.selection.per
    return tuple(dict(chosen)[name] for name in per) if per else ()


def alike(space: Space, outcome: Outcome) -> Hashable:
    """The same for outcomes whose scores can be compared: of one group, and ended alike."""
    return group(space, outcome.configuration), outcome.status, outcome.tasks


def relative(space: Space, known: Iterable[Outcome]) -> dict[Configuration, float]:
    """How far each score is above the mean of those of the same group that ended alike."""
    grouped: dict[Hashable, list[Outcome]] = defaultdict(list)
    for outcome in known:
        grouped[alike(space, outcome)].append(outcome)
    means = {name: _mean([outcome.score for outcome in several]) for name, several in grouped.items()}
    return {each.configuration: each.score - means[name] for name, several in grouped.items() for each in several}


def _mean(scores: Sequence[float]) -> float:
    return math.fsum(scores) / len(scores) if scores else 0.0  # exact, in whatever order the trials come


def select(space: Space, entries: Iterable[Entry]) -> Choice:
    """The best of what the record holds. Of equal ones the first on the axes wins, whichever ended first."""
    per = space.selection.per
    candidates: dict[tuple[Value, ...], list[Outcome]] = defaultdict(list)
    left_out: list[str] = []
    known = outcomes(space, entries)
    eligible = _eligible(space, known)
    for outcome in known:
        if outcome.status == "done" and not any(entry.status == "failed" for entry in outcome.further):
            if outcome.configuration in eligible:
                candidates[group(space, outcome.configuration)].append(outcome)
        else:
            left_out.append(_why(space, outcome))
    selected: list[Selected] = []
    missing: list[str] = []
    for values in itertools.product(*space.lists(per)):
        if best := candidates.get(values):
            selected += _best(space, best)
        else:
            where = named(dict(zip(per, values, strict=True)))
            missing.append(f"{where + ': ' if where else ''}no configuration has all of its trials finished")
    return Choice(tuple(selected), tuple(left_out), tuple(missing))


def _best(space: Space, finished: Sequence[Outcome]) -> Iterable[Selected]:
    runners = [runner(space, outcome) for outcome in finished]
    left, seeds = finalists(runners, space.seeds)
    last = {each.configuration: each for each in left}
    candidates = [outcome for outcome in finished if outcome.configuration in last]
    if with_race := len(seeds) > len(space.seeds):
        candidates = [replace(each, score=last[each.configuration].mean(seeds)) for each in candidates]
    first, *others = _sorted(space, candidates)
    best = last[first.configuration]
    margin = _margin(space, first, [best.scores[seed] for seed in seeds], others, len(finished))
    if with_race:
        margin = replace(margin, race=raced(best, runners, seeds, space.seeds))
    return _runnable(space, first, seeds, margin)


def _sorted(space: Space, found: Iterable[Outcome]) -> list[Outcome]:
    return sorted(found, key=lambda each: (-each.score, position(space, each.configuration)))


def ranking(space: Space, entries: Iterable[Entry]) -> Callable[[Sequence[Point]], list[Point]]:
    """What puts points in the order of their scores, without those that have none; of equal ones the first on the axes
    comes first."""
    return _ranking(space, outcomes(space, entries))


def _ranking(space: Space, known: Iterable[Outcome]) -> Callable[[Sequence[Point]], list[Point]]:
    done = {outcome.configuration: outcome for outcome in known if outcome.status == "done"}

    def ranked(points: Sequence[Point]) -> list[Point]:
        listed = {configuration: point for point in points if (configuration := space.configuration(point)) in done}
        return [listed[each.configuration] for each in _sorted(space, (done[name] for name in listed))]

    return ranked


def _eligible(space: Space, known: Sequence[Outcome]) -> set[Configuration]:
    """What may be selected: of a greedy search the paths of its last round, which led there."""
    if space.selection.protocol.greedy is None:
        return {outcome.configuration for outcome in known}
    *_, last = rounds(space, _ranking(space, known))
    return {
        configuration for point in last if len(configuration := space.configuration(point)) == len(space.drawn_axes)
    }


def _margin(
    space: Space, first: Outcome, scores: Sequence[float], others: Sequence[Outcome], candidates: int
) -> Margin:
    """`scores` are its own, by seed."""
    std = statistics.stdev(scores) if len(scores) > 1 else None
    if not others:
        return Margin(candidates, std=std)
    second = {name: value for name, value in others[0].configuration if name not in space.selection.per}
    return Margin(candidates, first.score - others[0].score, second, std)


def _runnable(space: Space, best: Outcome, seeds: tuple[int, ...], margin: Margin) -> Iterable[Selected]:
    """One for every value of the axes that were averaged over; they share the rest."""
    names = space.selection.mean_over
    chosen = dict(best.configuration)
    every = (*best.entries, *best.further)
    results = {entry.key: entry.result for entry in every if entry.result is not None}
    for values in itertools.product(*space.lists(names)):
        point = {name: {**chosen, **dict(zip(names, values, strict=True))}[name] for name in space.axes}
        trials = [space.trial(point, seed) for seed in seeds]
        found = [results[trial.key] for trial in trials if trial.key in results]
        yield Selected(
            group={name: point[name] for name in (*space.selection.per, *names)},
            score=best.score,
            values=point,
            settings=trials[0].config.as_dict()["settings"],
            trials=tuple(trial.key for trial in trials),
            seeds=seeds,
            accuracies=_averages(found),
            probe=probe_title(found[0], "final") if found else "",
            margin=margin,
        )


def _averages(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = results[0]["average"] if results else ()
    return {name: _mean([each["average"][name] for each in results]) for name in names}


def position(space: Space, chosen: Configuration) -> tuple[Any, ...]:
    """Where a configuration is on the axes: in a list by its index, in a range by its value."""
    axes = space.axes
    position: list[Any] = []
    for name, value in chosen:
        axis = axes[name]
        position.append(value if isinstance(axis, Range) else axis.index(value))
    return tuple(position)


def _why(space: Space, outcome: Outcome) -> str:
    which = named(dict(outcome.configuration))
    done = sum(entry.status == "done" for entry in outcome.entries)
    failed = next((entry.reason for entry in outcome.entries if entry.status == "failed"), "")
    if lost := next((entry for entry in outcome.further if entry.status == "failed"), None):
        return f"{which}: failed in the race with seed {lost.seed} ({headline(lost.reason)})"
    if failed:
        return f"{which}: {done} of {space.trials_per_point} trials finished, one failed ({headline(failed)})"
    if outcome.status in ("pruned", "paused"):
        return f"{which}: {'stopped' if outcome.status == 'pruned' else 'paused'} after {outcome.tasks} tasks"
    return f"{which}: {done} of {space.trials_per_point} trials finished"


def told_apart(selected: Iterable[Selected]) -> list[str]:
    """A line for each race, on which of those that ran it cannot be told from the selected one."""
    lines = []
    for each in selected:
        if (race := each.margin.race) is not None:
            alike = [named({k: v for k, v in other.items() if k not in each.group}) for other in race.alike]
            more = f" and {len(alike) - LISTED} more" if len(alike) > LISTED else ""
            which = f"raced {race.runners} configurations" + (f" for {named(each.group)}" if each.group else "")
            listed = "; ".join(alike[:LISTED]) or "none"
            lines.append(f"{which}; not distinguishable from the selected one: {listed}{more}")
    return list(dict.fromkeys(lines))


def runnable(space: Space, choice: Choice) -> list[dict[str, Any]]:
    """The selected configurations, each once: those for several streams of a benchmark may be one on another."""
    chosen = [each.as_dict(space) for each in choice.selected]
    if space.selection.protocol.transfer is None:
        return chosen
    return list({repr((each["method"], each["settings"])): each for each in reversed(chosen)}.values())[::-1]


def write(path: Path, space: Space, choice: Choice, cost: Choosing) -> None:
    """The selected configurations as YAML, a list; each entry is what `co2l.evaluate` needs to run it."""
    chosen = [{**each, "chosen_by": cost.as_dict()} for each in runnable(space, choice)]
    write_atomic(path, yaml.safe_dump(chosen, sort_keys=False, allow_unicode=True))
