"""How much memory the trials of a search need, before it starts: from one step of every kind of trial."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from co2l.learning.cards import CARDS, GIB, Card, gib_on_card
from co2l.learning.config import RunConfig
from co2l.learning.footprint import Footprint, footprint
from co2l.learning.path import of_task
from co2l.search.space.document import Range, Value
from co2l.search.space.naming import named
from co2l.search.space.plan import work_of
from co2l.search.space.space import Space


@dataclass(frozen=True)
class Need:
    """Of all trials that differ in nothing that changes the memory of a step."""

    settings: dict[str, Any]  # the varied ones that do
    footprint: Footprint

    @property
    def name(self) -> str:
        return named(self.settings, separator=" ")

    def as_dict(self) -> dict[str, Any]:
        made_of = ("weights", "past", "data", "optimiser", "step")
        return {
            "settings": self.settings,
            "peak_bytes": self.footprint.peak,
            "bytes": {part: getattr(self.footprint, part) for part in made_of},
            "gib_on_card": round(gib_on_card(self.footprint.peak), 2),
        }


@dataclass(frozen=True)
class Memory:
    needs: tuple[Need, ...]  # the least first
    gpus: float  # that a trial has

    @property
    def most(self) -> Need:
        return self.needs[-1]

    @property
    def fitting(self) -> list[Card]:
        """The cards that any trial fits, given its share of them."""
        return [card for card in CARDS.values() if card.holds(self.most.footprint.peak, self.gpus or 1.0)]

    def shown(self) -> str:
        """As `36.7 GiB (batch_size=1024), 9.4 GiB (batch_size=256)`; one alone if they hardly differ."""
        least, most = (each.footprint.peak for each in (self.needs[0], self.most))
        if least > 0.95 * most:
            return size(most)
        return f"{size(most)} ({self.most.name}), {size(least)} ({self.needs[0].name})"

    def as_dict(self) -> dict[str, Any]:
        fitting = [card.name for card in self.fitting] if self.gpus else None
        return {"needs": [need.as_dict() for need in self.needs], "cards": fitting}


def memory(space: Space) -> Memory:
    """Of every batch size, network and loss that a trial may have, with the largest buffer."""
    largest: dict[tuple[object, ...], tuple[RunConfig, dict[str, Any]]] = {}
    for config in _extremes(space):
        work = work_of(space, config)
        kind = tuple(work.values())
        if kind not in largest or _buffer(config) > _buffer(largest[kind][0]):
            largest[kind] = config, work
    needs = [Need(work, footprint(config)) for config, work in largest.values()]
    return Memory(tuple(sorted(needs, key=lambda need: need.footprint.peak)), space.resources.gpus)


def _buffer(config: RunConfig) -> float:
    size = getattr(config.settings, "buffer_size", 0)
    return float("inf") if isinstance(size, str) else size


def _extremes(space: Space) -> Iterator[RunConfig]:
    """Every listed value of every axis, and the largest of every range: more settings of a kind need more memory.

    A setting of single tasks counts as if all tasks had each of its values.
    """
    lists: dict[str, dict[Value, None]] = {}
    for name, axis in space.axes.items():
        values = (axis.high,) if isinstance(axis, Range) else axis
        lists.setdefault(of_task(name)[0], {}).update(dict.fromkeys(values))
    for values in itertools.product(*lists.values()):
        yield space.config(dict(zip(lists, values, strict=True)), space.seeds[0])


def size(count: int) -> str:
    """A number of bytes, in the unit that shows it best."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB / 10 else f"{count / 2**20:,.1f} MiB"
