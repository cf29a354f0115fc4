"""Which points a search begins with if an earlier study is given: the nearest ones to the best of that study.

An earlier study may have had another benchmark, buffer, seed or other values. So its scores say nothing here, but what
came first there is a good guess. They are few, so a study that misleads costs little, and from then on the search's own
results decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from co2l.errors import Co2lError
from co2l.search.record.earlier import Earlier
from co2l.search.record.reader import StoredStudy, StudyReader
from co2l.search.selection.rule import Outcome, outcomes, relative
from co2l.search.space.document import METHOD, Range, Value
from co2l.search.space.space import Space

POINTS = 3  # that are taken, for each value of the axes that the selection chooses per


def taken(space: Space, storage: str, study: str, name: str, *, fresh: bool = False) -> Earlier:
    """What `study` begins with: what it took from the earlier study `name` when it was begun, or else takes now."""
    if name == study:
        raise Co2lError(f"study '{study}' cannot begin with itself", where="--from-study", fix="give another study")
    if space.selection.protocol.greedy:
        what = "a greedy search tries every choice of a round, so none comes first"
        raise Co2lError(what, where="--from-study", fix="leave it out")
    reader = StudyReader(storage)
    if not fresh and (noted := reader.earlier(study)):
        if noted.study != name:
            fix = "leave out --from-study, or use --study NEW"
            raise Co2lError(f"study '{study}' was begun with points of '{noted.study}'", where="--from-study", fix=fix)
        return noted
    return Earlier(name, tuple(points(space, reader.study(name))))


def points(space: Space, stored: StoredStudy) -> list[dict[str, Value]]:
    """The best of the earlier study, each as the nearest point of the space."""
    if stored.kind != "search":
        what = f"'{stored.name}' is an evaluation, and test accuracies guide no search"
        raise Co2lError(what, where="--from-study", fix="give a search")
    names = [name for name in space.drawn_axes if name not in space.selection.per]
    if not set(names) & set(stored.space.axes):
        what = f"study '{stored.name}' varied none of {', '.join(names)}"
        raise Co2lError(what, where="--from-study", fix=f"it has {', '.join(stored.space.axes)}: give another study")
    done = [each for each in outcomes(stored.space, stored.entries.values()) if each.status == "done"]
    lead = relative(stored.space, done)
    done.sort(key=lambda outcome: -lead[outcome.configuration])
    found: dict[tuple[Value, ...], dict[str, Value]] = {}
    for outcome in done:
        if (point := _nearest(space, names, _values(stored.space, names, outcome))) is not None:
            found.setdefault(tuple(point.values()), point)
    if not found:
        what = f"study '{stored.name}' has no finished configuration near one of this space"
        raise Co2lError(what, where="--from-study", fix="give another study")
    return list(found.values())[:POINTS]


def _values(space: Space, names: Sequence[str], outcome: Outcome) -> dict[str, Value]:
    """The values of these axes that an outcome's configuration had, even where they were fixed."""
    entry = outcome.entries[0]
    config = space.trial(entry.values, entry.seed).config
    known = dict(entry.values) | {METHOD: config.method}
    for name in names:
        if name not in known and name.partition("/")[0] in type(config.settings).model_fields:
            known[name] = config.value(name)
    return {name: known[name] for name in names if name in known}


def _nearest(space: Space, names: Sequence[str], values: Mapping[str, Value]) -> dict[str, Value] | None:
    """None if a word has no equal here. An axis that nothing is known of takes the middle of its values."""
    point: dict[str, Value] = {}
    for name in names:
        axis = space.axes[name]
        value = _on(axis, values[name]) if name in values else _middle(axis)
        if value is None:
            return None
        point[name] = value
    return point


def _on(axis: tuple[Value, ...] | Range, value: Value) -> Value | None:
    if isinstance(axis, Range):
        if not _is_number(value):
            return None
        inside = min(max(value, axis.low), axis.high)
        return round(inside) if isinstance(axis.low, int) else float(inside)
    if value in axis:
        return axis[axis.index(value)]
    numbers = [each for each in axis if _is_number(each)]
    if not _is_number(value) or not numbers:
        return None
    if value > 0 and min(numbers) > 0:
        return min(numbers, key=lambda each: abs(math.log(each / value)))
    return min(numbers, key=lambda each: abs(each - value))


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _middle(axis: tuple[Value, ...] | Range) -> Value:
    if isinstance(axis, Range):
        middle = math.sqrt(axis.low * axis.high) if axis.log else (axis.low + axis.high) / 2
        return round(middle) if isinstance(axis.low, int) else middle
    ordered = sorted(axis, key=float) if all(map(_is_number, axis)) else axis
    return ordered[(len(ordered) - 1) // 2]
