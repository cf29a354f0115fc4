"""What a sampler is shown of a search: every point, or of very many the best and a sample of the others.

All of it is a function of the record. A point whose trials have all ended stays as it is, so it is looked at once, and
a suggestion takes as long after 10,000 points as after 1,000. A trial's key is a hash, so the ended points with the
smallest keys are a sample of them, which one more point hardly changes.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from co2l.search.record.entries import ENDED, Entry, of_seeds
from co2l.search.selection.rule import Outcome, alike, outcomes
from co2l.search.space.space import Configuration, Space

BEST = 0.1  # of the points that are shown, the share that are the best; TPE calls 25 of 1,000 good
Points = Mapping[Configuration, Outcome | None]  # in the order in which they were drawn; None if the record lacks one
Listed = list[tuple[Any, int, Outcome]]  # the smallest first; no two have the same position


class Known:
    def __init__(self, space: Space, most: int) -> None:
        """`most` is how many of the points that ended are shown."""
        self._space, self._most, self._most_best = space, most, int(BEST * most)
        self.times_forgotten = 0
        self._forget()

    def _forget(self) -> None:
        self.times_forgotten += 1
        self._entries: dict[str, Entry] = {}  # those of the points that ended
        self._first: list[Entry] = []  # of the record, as long as all are of those
        self.ended: dict[Configuration, Outcome] = {}
        self.open: dict[Configuration, Outcome] = {}  # begun, but not ended
        self._position: dict[Configuration, int] = {}  # in the record
        self._scores: dict[Hashable, list[float]] = defaultdict(list)  # of the ended points that are alike
        self._best: dict[Hashable, Listed] = defaultdict(list)  # of those
        self._sample: Listed = []

    def __len__(self) -> int:
        return len(self.ended) + len(self.open)

    def read(self, entries: Iterable[Entry]) -> None:
        """What the record says now."""
        now = list(entries)
        if now[: len(self._first)] != self._first:  # this is another record
            self._forget()
        start = len(self._first)
        fresh = [(i, each) for i, each in enumerate(now[start:], start) if self._entries.get(each.key) is not each]
        if len(now) - len(fresh) != len(self._entries):
            self._forget()
            fresh = list(enumerate(now))
        positions: dict[Configuration, int] = {}
        for position, entry in fresh:
            positions.setdefault(self._space.configuration(entry.values), position)
        self.open = {}
        for outcome in outcomes(self._space, of_seeds((entry for _, entry in fresh), self._space.seeds)):
            self._position[outcome.configuration] = positions[outcome.configuration]
            whole = len(outcome.entries) == self._space.trials_per_point
            if whole and all(entry.status in ENDED for entry in outcome.entries):
                self._end(outcome)
            else:
                self.open[outcome.configuration] = outcome
        self._first += itertools.takewhile(lambda each: each.key in self._entries, now[len(self._first) :])

    def _end(self, outcome: Outcome) -> None:
        self.ended[outcome.configuration] = outcome
        self._entries |= {entry.key: entry for entry in outcome.entries}
        kind, position = alike(self._space, outcome), self._position[outcome.configuration]
        self._scores[kind].append(outcome.score)
        if outcome.status != "failed":  # no sampler learns from it
            _keep(self._best[kind], (-outcome.score, position, outcome), self._most_best)
            _keep(self._sample, (outcome.entries[0].key, position, outcome), self._most)

    def drawn(self, tried: Collection[Configuration]) -> list[Configuration]:
        """All points, in the order in which they were drawn: `tried`, of which the record may not know all."""
        if len(tried) >= len(self):
            return list(tried)
        return list(self._in_order([*self.ended.values(), *self.open.values()]))

    def shown(self, drawn: Sequence[Configuration]) -> Points:
        """What a sampler is shown of these points; those without outcome have not begun."""
        if len(self.ended) <= self._most:
            return {point: self.ended.get(point) or self.open.get(point) for point in drawn}
        found = {each.configuration: each for each in self._best_of_all()}
        for _, _, outcome in self._sample:
            if len(found) == self._most:
                break
            found.setdefault(outcome.configuration, outcome)
        return {**self._in_order([*found.values(), *self.open.values()]), **dict.fromkeys(self._waiting(drawn))}

    def levels(self, points: Points) -> dict[Configuration, float]:
        """How far the score of each is above the mean of all that are alike, shown or not."""
        scores: dict[Hashable, list[float]] = defaultdict(list)
        for outcome in self.open.values():
            scores[alike(self._space, outcome)].append(outcome.score)
        found = {point: outcome for point, outcome in points.items() if outcome is not None}
        kinds = {point: alike(self._space, outcome) for point, outcome in found.items()}
        means = {kind: statistics.fmean([*self._scores.get(kind, ()), *scores[kind]]) for kind in set(kinds.values())}
        return {point: outcome.score - means[kinds[point]] for point, outcome in found.items()}

    def _best_of_all(self) -> list[Outcome]:
        """Finished ones first, then those that were stopped last, each by its lead over others that are alike."""
        means = {kind: statistics.fmean(self._scores[kind]) for kind in self._best}
        ranked = [
            (outcome.status != "done", -outcome.tasks, means[kind] + minus, position, outcome)
            for kind, listed in self._best.items()
            for minus, position, outcome in listed
        ]
        return [outcome for *_, outcome in sorted(ranked)[: self._most_best]]

    def _in_order(self, found: Iterable[Outcome]) -> dict[Configuration, Outcome]:
        return {each.configuration: each for each in sorted(found, key=lambda each: self._position[each.configuration])}

    def _waiting(self, drawn: Sequence[Configuration]) -> Iterator[Configuration]:
        """Drawn, but not begun: mostly the last ones."""
        left = len(drawn) - len(self)
        for point in reversed(drawn):
            if left <= 0:
                return
            if point not in self.ended and point not in self.open:
                left -= 1
                yield point


def _keep(listed: Listed, one: tuple[Any, int, Outcome], most: int) -> None:
    """Insert it, if it is among the smallest."""
    bisect.insort(listed, one)
    if len(listed) > most:
        listed.pop()
