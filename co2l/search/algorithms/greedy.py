"""Greedy: settings are chosen anew at every task, round by round; the points of a round follow from the last one's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from co2l.search.algorithms.drawing import Drawing
from co2l.search.record.entries import ENDED, Entry
from co2l.search.selection.rule import ranking
from co2l.search.space.protocol import rounds_of
from co2l.search.space.rounds import rounds
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


class Rounds:
    """The points of a greedy search, in the form of `Drawing`: those of a round once the one before has ended."""

    def __init__(self, space: Space, entries: Mapping[str, Entry]) -> None:
        self._space, self._entries = space, entries  # `entries` is read anew before every round
        self._sizes = rounds_of(space)
        self._given = 0  # rounds
        self._last: list[str] = []  # the trials of the last of them

    @property
    def left(self) -> int:
        """How many points the rounds have that are still to come."""
        return sum(self._sizes[self._given :])

    def first(self) -> Iterator[Trial]:
        """Those to try before all others; none, as every one of a round is tried."""
        return iter(())

    def initial(self) -> Iterator[Trial]:
        """The trials of all rounds that are known."""
        while trials := self.next():
            yield from trials

    def next(self) -> list[Trial]:
        """The trials of the next round; none if it is not known yet, or there is no other."""
        entries = [self._entries.get(key) for key in self._last]
        if any(entry is None or entry.status not in ENDED for entry in entries):
            return []
        found = rounds(self._space, ranking(self._space, self._entries.values()))
        points = next(itertools.islice(found, self._given, None), None)
        if points is None:
            self._given = len(self._sizes)  # no state is left to go on from
            return []
        self._given += 1
        trials = [trial for point in points for trial in self._space.trials_of(point)]
        self._last = [trial.key for trial in trials]
        return trials


def drawing(space: Space, entries: Mapping[str, Entry], seed: int) -> Drawing | Rounds:
    """Where the trials of a search come from."""
    return Rounds(space, entries) if space.selection.protocol.greedy else Drawing(space, entries, seed)
