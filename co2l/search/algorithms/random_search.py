"""Random search: a value at random for every axis."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator

from co2l.search.record.entries import Entry
from co2l.search.space.document import Value
from co2l.search.space.space import Configuration, Space


class RandomSearch:
    enumerable = False
    adaptive = False

    def __init__(self, space: Space) -> None:
        self._space = space

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        del entries, tried
        rng = random.Random(seed)
        while True:
            yield self._space.draw(rng)
