"""How much a search will train, before it starts: trials, distinct stages, epochs with and without reuse."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from co2l.learning.config import RunConfig, Scope
from co2l.search.algorithms.registry import algorithm_of
from co2l.search.space.by_task import merged
from co2l.search.space.document import METHOD
from co2l.search.space.protocol import rounds_of
from co2l.search.space.rounds import rounds
from co2l.search.space.space import Space
from co2l.search.space.trial import Segment, Trial

UNWORKED = ("E_0", "E_t", "epochs", "buffer_size", "class_order")  # how many steps there are, and on which classes


@dataclass(frozen=True)
class Plan:
    trials: int
    first_stages: int  # distinct ones, as the next two
    stages: int
    epochs_naive: int  # every trial trained alone
    epochs_planned: int  # every distinct stage trained once
    race_epochs: int  # further ones, at most, that a race takes without a budget
    exact: bool  # else a random draw as an example, or the most that a search with early stopping takes
    used_again: tuple[tuple[RunConfig, range], ...] = field(repr=False)  # a trial, and which of its stages

    @property
    def ratio(self) -> float:
        return self.epochs_naive / self.epochs_planned

    @functools.cached_property
    def shared(self) -> frozenset[str]:
        """The keys of the stages that several trials use."""
        return frozenset(config.stage_key(t) for config, stages in self.used_again for t in stages)

    def as_dict(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            "first_stages": self.first_stages,
            "stages": self.stages,
            "epochs_naive": self.epochs_naive,
            "epochs_planned": self.epochs_planned,
            "ratio": self.ratio,
            **({"race_epochs": self.race_epochs} if self.race_epochs else {}),
            "exact": self.exact,
        }


def plan(space: Space) -> Plan:
    """Count without training. A trial's chain parts from another's at the first stage that reads a differing axis.

    Where no setting differs by task, all stages after the first read the same, so two trials share all of them or none.
    The number and order of tasks is among what the first one reads.
    """
    made: dict[Segment, tuple[RunConfig, int]] = {}
    uses: Counter[Segment] = Counter()
    trials = naive = 0
    for trial in planned_trials(space):
        config, epochs = trial.config, trial.config.epochs
        trials, naive = trials + 1, naive + sum(epochs)
        for segment in trial.chain:
            made.setdefault(segment, (config, sum(epochs[t] for t in segment.stages)))
        uses.update(trial.chain)
    planned, race = sum(epochs for _, epochs in made.values()), space.selection.race
    return Plan(
        trials=trials,
        first_stages=sum(segment.stages.start == 0 for segment in made),
        stages=sum(len(segment.stages) for segment in made),
        epochs_naive=naive,
        epochs_planned=planned,
        race_epochs=int(race.share * planned) if race else 0,
        exact=trial_count(space) is not None and space.early_stop is None,
        used_again=tuple((config, each.stages) for each, (config, _) in made.items() if uses[each] > 1),
    )


def together(spaces: Sequence[Space]) -> Plan:
    """Grids that run one after the other and share a store, where a stage of one may be a stage of another too."""
    uses: Counter[str] = Counter()
    epochs: dict[str, int] = {}
    first: set[str] = set()
    made: dict[str, tuple[RunConfig, int]] = {}
    trials = naive = 0
    for space in spaces:
        for trial in space.trials():
            keys, of_task = trial.config.stage_keys(len(trial.config.epochs)), trial.config.epochs
            trials, naive = trials + 1, naive + sum(of_task)
            epochs |= zip(keys, of_task, strict=True)
            first.add(keys[0])
            uses.update(keys)
            for t, key in enumerate(keys):
                made.setdefault(key, (trial.config, t))
    again = [(config, range(t, t + 1)) for key, (config, t) in made.items() if uses[key] > 1]
    planned = sum(epochs.values())
    return Plan(trials, len(first), len(uses), naive, planned, 0, exact=True, used_again=tuple(again))


def trial_count(space: Space) -> int | None:
    """How many trials the search has; None if its algorithm draws them as it goes."""
    if space.selection.protocol.greedy:
        return sum(rounds_of(space)) * space.trials_per_point
    algorithm = algorithm_of(space)
    if not algorithm.enumerable:
        return None
    return sum(1 for _ in algorithm.suggest((), (), 0)) * space.trials_per_point


def listed_trials(space: Space) -> Iterator[Trial]:
    """The trials of an algorithm that lists its points, in the order of the grid."""
    listed = {space.configuration(point) for point in algorithm_of(space).suggest((), (), 0)}
    return (trial for trial in space.trials() if space.configuration(trial.values) in listed)


def planned_trials(space: Space) -> Iterator[Trial]:
    """The trials of the search; if it draws them, as many as it will train, drawn at random.

    A greedy search has as many, and as long ones, whichever states it goes on from.
    """
    if space.selection.protocol.greedy:
        for points in rounds(space, lambda found: found):
            yield from (trial for point in points for trial in space.trials_of(point))
        return
    if algorithm_of(space).enumerable:
        yield from listed_trials(space)
        return
    assert space.samples is not None  # checked when the space was read
    rng, drawn = random.Random(0), set[tuple[object, ...]]()
    tries = 20 * space.samples  # a trial is trained once: few different ones may be left to draw
    while len(drawn) < space.samples and tries > 0:
        point, tries = space.draw(rng), tries - 1
        if tuple(point.values()) not in drawn:
            drawn.add(tuple(point.values()))
            yield from space.trials_of(point)


def work_of(space: Space, config: RunConfig) -> dict[str, Any]:
    """The varied settings that change what a training step computes and holds, and not only its result.

    Batches, networks and losses do; rates and temperatures do not, nor how long a task is trained or evaluated. A
    larger buffer only makes epochs longer.
    """
    settings = config.settings
    known = [name for name in merged(space.varied) if name in type(settings).model_fields]
    varied = {name: getattr(settings, name) for name in known if settings.scope(name) is not Scope.PROBE}
    method = {METHOD: config.method} if len(space.methods_tried) > 1 else {}
    work = {name: value for name, value in varied.items() if not isinstance(value, float) and name not in UNWORKED}
    return {**method, **work}


def order(trials: Iterable[Trial]) -> list[Trial]:
    """One trial of every distinct first stage, then the others: what many wait for is trained first."""
    seen: set[Segment] = set()
    leaders: list[Trial] = []
    others: list[Trial] = []
    for trial in trials:
        (others if trial.chain[0] in seen else leaders).append(trial)
        seen.add(trial.chain[0])
    return leaders + others


def longest_stage(space: Space) -> int:
    """The most epochs that a trial of the search trains on one task."""
    return max(max(trial.config.epochs) for trial in planned_trials(space))
