"""A search space: what is fixed, what is tried, and how the best is chosen.

`load` answers a wrong file with one line that names the file, the key and what would be right. A space that was
loaded is immutable, and its cells are run configurations.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import random
import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from pydantic import PrivateAttr

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.streams import Split
from co2l.errors import Co2lError, unknown
from co2l.learning.config import RunConfig, Scope
from co2l.learning.methods import METHODS, configure
from co2l.learning.metrics import scenarios
from co2l.search.document import Document, EarlyStop, Range, Value, read, shaped

VARIANT = "variant"  # the axis whose values are the names of the variants


@dataclass(frozen=True)
class Cell:
    """One run of a search: a value for every axis, and a seed."""

    values: Mapping[str, Value]
    config: RunConfig
    prefix: tuple[Value, ...]  # what tells its first stage from those of the space's other cells
    whole: tuple[Value, ...]  # what tells all its stages from theirs: those only evaluated in another way have the same

    @property
    def seed(self) -> int:
        return self.config.seed

    @functools.cached_property
    def key(self) -> str:
        return self.config.key

    @property
    def group(self) -> tuple[tuple[str, Value], ...]:
        """The settings that were chosen, whatever the seed."""
        return tuple(self.values.items())


class Space(Document):
    """A document whose values make sense for its benchmark and method. Made by `load` and `parse`."""

    _source: str = PrivateAttr("space")

    @property
    def source(self) -> str:
        """Where it came from, as errors name it."""
        return self._source

    @functools.cached_property
    def split(self) -> Split:
        """Training samples only, a part of them for validation."""
        return Split("search", self.validation.fraction, self.validation.seed)

    @property
    def size(self) -> int | None:
        """The number of cells of the grid, or None if a range makes them countless."""
        if any(isinstance(axis, Range) for axis in self.axes.values()):
            return None
        return math.prod(len(self._listed(name)) for name in self.axes) * len(self.seeds)

    def cells(self) -> Iterator[Cell]:
        """The grid, whatever the algorithm: the last axis moves fastest, and each point takes every seed."""
        return self._cells({}, list(self.axes))

    def cells_of(self, drawn: Mapping[str, Value]) -> Iterator[Cell]:
        """The runs behind one sample: every seed, and every value of the axes that the selection averages over."""
        return self._cells(drawn, list(self.selection.mean_over))

    def _cells(self, given: Mapping[str, Value], enumerated: list[str]) -> Iterator[Cell]:
        for values in itertools.product(*(self._listed(name) for name in enumerated)):
            point = {**given, **dict(zip(enumerated, values, strict=True))}
            for seed in self.seeds:
                yield self.cell(point, seed)

    def _listed(self, name: str) -> tuple[Value, ...]:
        axis = self.axes[name]
        if isinstance(axis, Range):
            raise _countless(name, self.source)
        return axis

    def cell(self, values: Mapping[str, Value], seed: int) -> Cell:
        """The cell of one value per axis, which need not be on the grid."""
        if values.keys() != self.axes.keys():
            raise Co2lError(f"a cell needs one value for each of {', '.join(self.axes)}", where=self.source)
        given = self.given(values)
        config = configure(self.benchmark, self.method, given, seed=seed, split=self.split, where=self.source)
        settings = config.settings
        taken = {name: values[name] if name == VARIANT else getattr(settings, name) for name in self.axes}
        prefix = (seed, *(getattr(settings, name) for name in self._first))
        return Cell(taken, config, prefix, (*prefix, *(getattr(settings, name) for name in self._later)))

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings at a point of the axes, without the method's defaults."""
        together = self.variants[values[VARIANT]] if VARIANT in values else {}
        return {**self.settings, **together, **{name: value for name, value in values.items() if name != VARIANT}}

    def draw(self, rng: random.Random) -> dict[str, Value]:
        """A value at random for every axis that the selection does not average over; `cells_of` adds those."""
        drawn: dict[str, Value] = {}
        for name, axis in self.axes.items():
            if name not in self.selection.mean_over:
                drawn[name] = axis.draw(rng) if isinstance(axis, Range) else rng.choice(axis)
        return drawn

    @functools.cached_property
    def varied(self) -> tuple[str, ...]:
        """The settings in which cells differ: those of the axes, and those of the variants."""
        of_variants = (name for settings in self.variants.values() for name in settings)
        return tuple(dict.fromkeys([*(name for name in self.axes if name != VARIANT), *of_variants]))

    @functools.cached_property
    def _first(self) -> tuple[str, ...]:
        return self._read_in(Scope.EVERY, Scope.FIRST)

    @functools.cached_property
    def _later(self) -> tuple[str, ...]:
        return self._read_in(Scope.LATER)

    def _read_in(self, *scopes: Scope) -> tuple[str, ...]:
        scope = METHODS[self.method].settings_type.scope
        return tuple(name for name in self.varied if scope(name) in scopes)

    def with_settings(self, values: Mapping[str, Any], *, where: str = "--set") -> Self:
        """The space with settings overridden: an axis keeps the value as its only one; a list is a new axis."""
        settings, axes = dict(self.settings), dict(self.axes)
        for name, value in values.items():
            if isinstance(value, list | dict):
                settings.pop(name, None)
                axes[name] = value  # type: ignore[assignment]  # `parse` checks it like the content of a file
            elif name in axes:
                axes[name] = (value,)
            else:
                settings[name] = value
        return self.replace(where=where, settings=settings, axes=axes)

    def replace(self, *, where: str = "", **keys: Any) -> Self:
        """The space with some keys replaced, checked again; `where` says in errors who replaced them."""
        document = {name: getattr(self, name) for name in Document.model_fields} | keys
        changed = parse(document, f"{self.source} with {where}" if where else self.source, type(self))
        changed._source = self.source
        return changed

    def canonical(self) -> dict[str, Any]:
        """What the results depend on, defaults included: not how many samples, on what, or how often retried."""
        plain = self.model_dump(mode="json", exclude={"samples", "resources", "retries", "settings", "variants"})
        some = self._any_cell()
        if self.variants:
            together = {name for settings in self.variants.values() for name in settings}
            cells = {name: self.cell({**some.values, VARIANT: name}, some.seed) for name in self.variants}
            plain["variants"] = {
                name: cell.config.settings.model_dump(mode="json", include=together) for name, cell in cells.items()
            }
        return {**plain, "settings": some.config.settings.model_dump(mode="json", exclude=set(self.varied))}

    def _any_cell(self) -> Cell:
        first = {name: axis.low if isinstance(axis, Range) else axis[0] for name, axis in self.axes.items()}
        return self.cell(first, self.seeds[0])

    @property
    def digest(self) -> str:
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def difference(self, other: Space) -> list[str]:
        """What `other` changes, a line for each key."""
        return difference(self.canonical(), other.canonical())


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """How two canonical forms differ, a line for each key, as `axes.eta: [0.1] → [0.1, 0.5]`."""
    old, new = dict(_flat(before)), dict(_flat(after))

    def shown(side: Mapping[str, Any], name: str) -> str:
        return json.dumps(side[name], ensure_ascii=False) if name in side else "nothing"

    return [f"{name}: {shown(old, name)} → {shown(new, name)}" for name in {**old, **new} if _differs(old, new, name)]


def _differs(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    return name not in old or name not in new or bool(old[name] != new[name])


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def load(path: str | Path) -> Space:
    """The space in a YAML file."""
    return parse(read(path), str(path))


S = TypeVar("S", bound="Space")


@overload
def parse(document: object, source: str) -> Space: ...
@overload
def parse(document: object, source: str, kind: type[S]) -> S: ...
def parse(document: object, source: str, kind: type[Space] = Space) -> Space:
    """The space in plain data, as YAML reads it; `source` is what errors name as its place."""
    try:
        return _parse(document, source, kind)
    except Co2lError as error:  # it may quote a name of several lines
        what, fix = (re.sub(r"\s*[\r\n]\s*", " ", text) for text in (error.what, error.fix))
        raise Co2lError(what, where=error.where, fix=fix) from None


def _parse(document: object, source: str, kind: type[Space]) -> Space:
    space = shaped(document, kind, source)
    space._source = source
    if space.benchmark not in BENCHMARKS:
        raise unknown("benchmark", space.benchmark, BENCHMARKS, where=f"{source}: benchmark")
    if space.method not in METHODS:
        raise unknown("method", space.method, METHODS, where=f"{source}: method")
    if not (space.axes or space.variants):
        what = "nothing is listed" if "axes" in space.model_fields_set else "the key 'axes' is missing"
        where = f"{source}: axes" if "axes" in space.model_fields_set else source
        raise Co2lError(what, where=where, fix=f"axes is: {Document.model_fields['axes'].description}")
    if space.variants and VARIANT not in space.axes:
        space = space.model_copy(update={"axes": {VARIANT: tuple(space.variants), **space.axes}})
        space._source = source
    _check_names(space)
    _check_algorithm(space)
    axes = _checked_axes(space)
    space = space.model_copy(update={"axes": axes, "variants": _checked_variants(space, axes)})
    _check_choice(space)
    return space.model_copy(update={"early_stop": _checked_early_stop(space)})


def _check_names(space: Space) -> None:
    fields = METHODS[space.method].settings_type.model_fields
    variants = {f"variants.{name}": settings for name, settings in space.variants.items()}
    for section, names in {"settings": space.settings, "axes": space.axes, **variants}.items():
        for name in names:
            if section == "axes" and name == VARIANT and space.variants:
                continue
            where = f"{space.source}: {section}.{name}"
            owners = [other for other, kind in METHODS.items() if name in kind.settings_type.model_fields]
            if name in ("seed", "seeds"):
                raise Co2lError("a seed is not a setting", where=where, fix="list them under the key seeds, as [0, 1]")
            if name not in fields and owners:
                fix = f"remove it, or set method to {' or '.join(owners)}"
                raise Co2lError(f"'{name}' is not a setting of method '{space.method}'", where=where, fix=fix)
            if name not in fields:
                raise unknown("setting", name, fields, where=f"{space.source}: {section}")
    if space.variants:
        listed = space.axes[VARIANT]
        for name in ("a range",) if isinstance(listed, Range) else map(str, listed):
            if name not in space.variants:
                raise unknown("variant", name, space.variants, where=f"{space.source}: axes.{VARIANT}")
    for section, settings in {"axes": space.axes, **variants}.items():
        for name in space.settings.keys() & settings.keys():
            where = f"{space.source}: {section}.{name}"
            raise Co2lError(f"{name} is fixed under settings too", where=where, fix="keep it in one of the two")
    for section, settings in {"settings": space.settings, **variants}.items():
        for name, value in settings.items():
            where = f"{space.source}: {section}.{name}"
            if section != "settings" and name in space.axes:
                raise Co2lError(f"{name} is an axis too", where=where, fix="keep it in one of the two")
            if not isinstance(value, Value):
                fix = "give it one value here, or list several under axes"
                raise Co2lError(f"{reprlib.repr(value)} is not one value", where=where, fix=fix)


def _check_algorithm(space: Space) -> None:
    where = f"{space.source}: samples"
    if space.algorithm == "grid" and space.samples is not None:
        fix = "remove it, or set algorithm to random or tpe"
        raise Co2lError("a grid tries all of its cells and takes no number of samples", where=where, fix=fix)
    if space.algorithm != "grid" and space.samples is None:
        fix = "say how many settings to try, as samples: 50"
        raise Co2lError(f"the key 'samples' is missing for algorithm '{space.algorithm}'", where=space.source, fix=fix)
    for name, axis in space.axes.items():
        if isinstance(axis, Range) and space.algorithm == "grid":
            raise _countless(name, space.source)


def _countless(name: str, source: str) -> Co2lError:
    fix = "list its values, as [0.1, 0.5], or set algorithm to random or tpe"
    return Co2lError("a range has no grid", where=f"{source}: axes.{name}", fix=fix)


def _checked_axes(space: Space) -> dict[str, tuple[Value, ...] | Range]:
    """The axes with their values as the settings take them, so that 1 and 1.0 are the same learning rate."""
    first = {name: axis.low if isinstance(axis, Range) else axis[0] for name, axis in space.axes.items()}
    _taken(space, first, "")
    axes: dict[str, tuple[Value, ...] | Range] = {}
    for name, axis in space.axes.items():
        where = f"{space.source}: axes.{name}"
        if isinstance(axis, Range):
            axes[name] = _checked_range(space, name, axis, first, where)
            continue
        values = list(axis) if name == VARIANT else [_taken(space, {**first, name: value}, name) for value in axis]
        for i, value in enumerate(values):
            if value in values[:i]:
                raise Co2lError(f"the value {value!r} is there twice", where=where, fix="list each value once")
        axes[name] = tuple(values)
    return axes


def _checked_variants(space: Space, axes: Mapping[str, tuple[Value, ...] | Range]) -> dict[str, dict[str, Value]]:
    """The variants with their values as the settings take them; each is another one than those before it."""
    first = {name: axis.low if isinstance(axis, Range) else axis[0] for name, axis in axes.items()}
    variants: dict[str, dict[str, Value]] = {}
    found: dict[RunConfig, str] = {}
    for name, settings in space.variants.items():
        point = {**first, VARIANT: name}
        variants[name] = {setting: _taken(space, point, setting) for setting in settings}
        same = found.setdefault(space.cell(point, 0).config, name)
        if same != name:
            where = f"{space.source}: variants.{name}"
            raise Co2lError(f"has the same settings as '{same}'", where=where, fix="keep one of the two")
    return variants


def _checked_range(space: Space, name: str, axis: Range, first: Mapping[str, Value], where: str) -> Range:
    low, high = (_taken(space, {**first, name: end}, name) for end in (axis.low, axis.high))
    if isinstance(low, bool | str) or isinstance(high, bool | str):
        raise Co2lError(f"{name} is not a number and has no range", where=where, fix="list its values")
    if low >= high:
        raise Co2lError(f"low {low} is not below high {high}", where=where, fix="put the smaller value in low")
    if axis.log and low <= 0:
        fix = "use a low above 0, or leave out log"
        raise Co2lError(f"a logarithmic range cannot start at {low}", where=where, fix=fix)
    return Range(low=low, high=high, log=axis.log)


def _taken(space: Space, values: Mapping[str, Any], name: str) -> Any:
    """The value of setting `name` as the method takes it at this point of the space."""
    given = space.given(values)
    for each, value in given.items():
        if not isinstance(value, Value):
            where = f"{space.source}: axes.{each}"
            raise Co2lError(f"{reprlib.repr(value)} is not one value", where=where, fix="list plain values")
    try:
        settings = configure(space.benchmark, space.method, given).settings
    except Co2lError as error:
        raise _located(error, space, values) from None
    for each, value in given.items():
        if isinstance(value, bool) and not isinstance(getattr(settings, each), bool):  # pydantic takes true for 1
            about = type(settings).model_fields[each].description or "a number"
            where = f"{space.source}: {_section(space, each, values)}.{each}"
            raise Co2lError(
                f"true or false where a number should be, got {value}", where=where, fix=f"{each} is: {about}"
            )
    return getattr(settings, name, None)


def _section(space: Space, name: str, values: Mapping[str, Any]) -> str | None:
    """Where the file sets `name` at this point of the space, if it does."""
    variant = values.get(VARIANT, "")
    sections = {"axes": space.axes, "settings": space.settings, f"variants.{variant}": space.variants.get(variant, {})}
    return next((section for section, names in sections.items() if name in names), None)


def _located(error: Co2lError, space: Space, values: Mapping[str, Any]) -> Co2lError:
    """The same error at the key whose setting it starts with."""
    match = re.match(r"(\w+)(: )?", error.what)
    section = _section(space, match[1], values) if match else None
    if section is None or match is None:
        return Co2lError(error.what, where=space.source, fix=error.fix)
    what = error.what[match.end() :] if match[2] else error.what
    return Co2lError(what, where=f"{space.source}: {section}.{match[1]}", fix=error.fix)


def _check_choice(space: Space) -> None:
    """The objective is measured on this benchmark, and the selection goes over axes that have a list."""
    measured = [f"val/{name}" for name in ("score", *scenarios(BENCHMARKS[space.benchmark].scenario))]
    if space.objective not in measured:
        what = f"{space.objective} is not measured on {space.benchmark}"
        raise Co2lError(what, where=f"{space.source}: objective", fix=f"valid are: {', '.join(measured)}")
    selection = space.selection
    if selection.per and selection.mean_over:
        fix = "keep per to choose for each value, or mean_over to choose one for all"
        raise Co2lError("both per and mean_over are given", where=f"{space.source}: selection", fix=fix)
    for key, names in (("per", selection.per), ("mean_over", selection.mean_over)):
        where = f"{space.source}: selection.{key}"
        for i, name in enumerate(names):
            if name not in space.axes:
                raise unknown("axis", name, space.axes, where=where)
            if name in names[:i]:
                raise Co2lError(f"'{name}' is there twice", where=where, fix="name each axis once")
            if isinstance(space.axes[name], Range):
                raise Co2lError(f"'{name}' is a range", where=where, fix=f"list its values under axes.{name}")


def _checked_early_stop(space: Space) -> EarlyStop | None:
    """With its rungs; by default there is one after every task but the last."""
    if space.early_stop is None:
        return None
    of_variants = (settings.get("matrix_probe") for settings in space.variants.values())
    if "none" in (space.settings.get("matrix_probe"), *(space.axes.get("matrix_probe") or ()), *of_variants):
        fix = "set matrix_probe to fast, or early_stop to off"
        what = "early stopping compares the accuracies after each task, and matrix_probe none measures none"
        raise Co2lError(what, where=f"{space.source}: early_stop", fix=fix)
    last = BENCHMARKS[space.benchmark].tasks - 1
    rungs = space.early_stop.rungs or tuple(range(1, last + 1))
    if rungs[-1] > last:
        what = f"a rung after {rungs[-1]} tasks stops nothing: {space.benchmark} has {last + 1}"
        raise Co2lError(what, where=f"{space.source}: early_stop.rungs", fix=f"use numbers from 1 to {last}")
    return space.early_stop.model_copy(update={"rungs": rungs})
