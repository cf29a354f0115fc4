"""Greedy: settings are chosen anew at every task, round by round; the points of a round follow from the last one's."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from co2l.search.algorithms.drawing import Drawing, InTurns
from co2l.search.record.entries import Entry
from co2l.search.selection.rule import ranking
from co2l.search.space.protocol import rounds_of
from co2l.search.space.rounds import rounds
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


class Rounds(InTurns):
    """The points of a greedy search, a round in each turn."""

    def __init__(self, space: Space, entries: Mapping[str, Entry]) -> None:
        super().__init__(entries)
        self._space, self._sizes = space, rounds_of(space)
        self._given = 0  # rounds

    @property
    def left(self) -> int:
        """How many points the rounds have that are still to come."""
        return sum(self._sizes[self._given :])

    def _following(self) -> list[Trial]:
        found = rounds(self._space, ranking(self._space, self._entries.values()))
        points = next(itertools.islice(found, self._given, None), None)
        if points is None:
            self._given = len(self._sizes)  # no state is left to go on from
            return []
        self._given += 1
        return [trial for point in points for trial in self._space.trials_of(point)]


def drawing(space: Space, entries: Mapping[str, Entry], seed: int) -> Drawing | Rounds:
    """Where the trials of a search come from."""
    return Rounds(space, entries) if space.selection.protocol.greedy else Drawing(space, entries, seed)
