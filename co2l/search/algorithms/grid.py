"""Grid search: every point of the space, in the order of its axes."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator

from co2l.search.record.entries import Entry
from co2l.search.space.document import Value
from co2l.search.space.space import Configuration, Space


class Grid:
    enumerable = True
    adaptive = False

    def __init__(self, space: Space) -> None:
        self._space = space

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        del entries, tried, seed
        names = self._space.drawn_axes
        for values in itertools.product(*self._space.lists(names)):
            yield dict(zip(names, values, strict=True))
