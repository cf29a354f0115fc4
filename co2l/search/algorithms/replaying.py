"""Takes a sampler that leaves notes with its trials through a search again, so that it finds them there.

In the order in which the points were drawn the sampler suggests again, with their values instead of its own, and is
told how they ended. The points before the first one that has not ended are kept with the sampler's notes, and are not
replayed at the next suggestion. Of very many the sampler sees the best and the newest: a genetic algorithm breeds from
the best, and CMA-ES goes on from its last state.
"""

from __future__ import annotations

import bisect
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from co2l.search.algorithms.known import Known
from co2l.search.algorithms.shown import Shown
from co2l.search.selection.rule import Outcome, alike
from co2l.search.space.space import Configuration, Space

Asking = Callable[[optuna.Study], optuna.Trial]


class Replay:
    def __init__(
        self, space: Space, most: int, ask: Asking, params: Callable[[Configuration], Mapping[str, Any]]
    ) -> None:
        """`most` is how many points the sampler sees, and `params` gives its names and values for one."""
        self._space, self._half, self._ask, self._params = space, most // 2, ask, params
        self._begin(None)

    def _begin(self, basis: object) -> None:
        self._basis = basis  # what the search depends on, apart from its points
        self._points: list[Configuration] = []  # that were replayed for good
        self._trials: list[FrozenTrial] = []  # of these
        self._numbers: dict[TrialState, list[int]] = defaultdict(list)  # of those that ended so
        self._best: list[tuple[float, int]] = []  # of the finished ones: minus the value, and the number
        self._notes: dict[str, Any] = {}
        self._offsets: dict[Hashable, float] = {}

    def study(
        self, points: Sequence[Configuration], known: Known, seed: int, sampler: Callable[[int], BaseSampler]
    ) -> optuna.Study:
        """All points, replayed; `sampler` is the one that suggested the point of this number."""
        basis = seed, known.times_forgotten
        if basis != self._basis or self._points != points[: len(self._points)]:
            self._begin(basis)
        ended = len(self._points)
        while ended < len(points) and points[ended] in known.ended:
            ended += 1
        offsets = self._compared([known.ended[point] for point in points[: self._first(ended)]])
        if offsets != self._offsets:
            self._begin(basis)
            self._offsets = offsets
        for number in range(len(self._points), ended):
            shown = self._shown()
            shown.study.sampler = sampler(number)
            self._keep(shown, points[number], self._replay(shown, points[number], known.ended[points[number]]))
        shown = self._shown()
        for number in range(ended, len(points)):
            shown.study.sampler = sampler(number)
            outcome = known.ended.get(points[number]) or known.open.get(points[number])
            self._replay(shown, points[number], outcome)
        return shown.study

    def _first(self, ended: int) -> int:
        """A power of two, so that what depends on so many points seldom changes, and in the end never."""
        return min(2 * self._half, 1 << ended.bit_length() >> 1)

    def _compared(self, first: Sequence[Outcome]) -> dict[Hashable, float]:
        """How far the scores of each group are above those of the first one, so that they can be compared."""
        scores: dict[Hashable, list[float]] = defaultdict(list)
        for outcome in first:
            scores[alike(self._space, outcome)].append(outcome.score)
        means = {kind: statistics.fmean(several) for kind, several in scores.items()}
        return {kind: mean - next(iter(means.values())) for kind, mean in means.items()}

    def _shown(self) -> Shown:
        """A study with the best and the newest of these points; no sampler reads what failed."""
        numbers = {number for _, number in self._best}
        for state in (TrialState.COMPLETE, TrialState.PRUNED):
            numbers.update(self._numbers[state][-self._half :])
        return Shown([self._trials[number] for number in sorted(numbers)], len(self._trials), self._notes)

    def _replay(self, shown: Shown, point: Configuration, outcome: Outcome | None) -> FrozenTrial:
        """Let the sampler suggest again, with these values instead of its own, and tell it how they ended."""
        study = shown.study
        study.enqueue_trial(dict(self._params(point)))
        asked = self._ask(study)
        _ = asked.relative_params  # the sampler is asked only now: all values are given
        if outcome is None or outcome.status not in ("done", "pruned", "failed"):
            return shown.newest
        level = outcome.score - self._offsets.get(alike(self._space, outcome), 0.0)
        if outcome.status == "done":
            return study.tell(asked, level)
        if outcome.status == "pruned":
            asked.report(level, outcome.tasks)
        return study.tell(asked, state=TrialState.PRUNED if outcome.status == "pruned" else TrialState.FAIL)

    def _keep(self, shown: Shown, point: Configuration, trial: FrozenTrial) -> None:
        self._notes = dict(shown.notes)
        self._numbers[trial.state].append(trial.number)
        if trial.state == TrialState.COMPLETE and trial.value is not None:
            bisect.insort(self._best, (-trial.value, trial.number))
            del self._best[self._half :]
        self._points.append(point)
        self._trials.append(trial)
