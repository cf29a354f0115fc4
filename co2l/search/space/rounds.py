"""The rounds of a greedy search: every choice of the settings of a task, from each state that the last round kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from co2l.search.space.by_task import by_task
from co2l.search.space.document import Range, Value
from co2l.search.space.space import Space

Point = Mapping[str, Value]


def rounds(space: Space, ranked: Callable[[Sequence[Point]], Sequence[Point]]) -> Iterator[list[Point]]:
    """The points of one round after the other, of which `ranked` says which are left and in which order.

    With `selection.per`, each of its groups goes on from states of its own. No round follows one that leaves none.
    """
    per = space.selection.per
    kept: list[Point] = [dict(zip(per, values, strict=True)) for values in itertools.product(*space.lists(per))]
    for axes in by_task(space.axes).values():
        lists = [axis for axis in axes.values() if not isinstance(axis, Range)]
        choices = [dict(zip(axes, values, strict=True)) for values in itertools.product(*lists)]
        points: list[Point] = [{**state, **choice} for state in kept for choice in choices]
        yield points
        groups: dict[tuple[Value, ...], list[Point]] = {}
        for point in ranked(points):
            groups.setdefault(tuple(point[name] for name in per), []).append(point)
        kept = [point for group in groups.values() for point in group[: space.selection.protocol.beam]]
        if not kept:
            return
