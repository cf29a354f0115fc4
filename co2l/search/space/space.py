"""A search space: what is fixed, what is tried, and how the best is selected.

`load` answers a wrong file with one line that names the file, the key and what would be right. A space is immutable,
and its trials are run configurations.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from pydantic import PrivateAttr

from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.imports import use_given
from co2l.learning.config import RunConfig, Scope
from co2l.learning.methods import METHODS, configure
from co2l.learning.path import of_task
from co2l.search.algorithms.registry import ALGORITHMS
from co2l.search.space.by_task import by_task
from co2l.search.space.checks import checked, countless
from co2l.search.space.document import METHOD, VARIANT, Document, Range, Value, read, shaped
from co2l.search.space.growth import difference, digest_of
from co2l.search.space.trial import Segment, Trial

Configuration = tuple[tuple[str, Value], ...]  # what is selected as one: all axes but those that are averaged over


class Space(Document):
    """A document whose values make sense for its benchmark and method. Made by `load` and `parse`."""

    _source: str = PrivateAttr("space")

    @property
    def source(self) -> str:
        """Where it came from, as errors name it."""
        return self._source

    @functools.cached_property
    def split(self) -> Split:
        """Training examples only, a part of them for validation."""
        return Split("search", self.validation.fraction, self.validation.seed, self.validation.by)

    @functools.cached_property
    def further_seeds(self) -> tuple[int, ...]:
        """Those beyond the space's, in whose order a race tries the best configurations."""
        first = max(self.seeds) + 1
        return tuple(range(first, first + self.selection.race.seeds - len(self.seeds))) if self.selection.race else ()

    def split_of(self, seed: int) -> Split:
        """With a seed that is not the space's, as in a race, trials draw other validation examples too."""
        return self.split if seed in self.seeds else replace(self.split, seed=self.split.seed + seed)

    @property
    def size(self) -> int | None:
        """The number of trials of the grid, or None if a range makes them countless."""
        if any(isinstance(axis, Range) for axis in self.axes.values()):
            return None
        return math.prod(len(self._listed(name)) for name in self.axes) * len(self.seeds)

    @property
    def drawn_axes(self) -> list[str]:
        """The axes that an algorithm chooses values for: all but those that the selection averages over."""
        return [name for name in self.axes if name not in self.selection.mean_over]

    @property
    def trials_per_point(self) -> int:
        """How many trials a point has: every seed, with every value of the axes that the selection averages over."""
        return len(self.seeds) * math.prod(len(values) for values in self.lists(self.selection.mean_over))

    def configuration(self, values: Mapping[str, Value]) -> Configuration:
        """What is selected as one: the values of all axes but those that the selection averages over."""
        return tuple((name, values[name]) for name in self.drawn_axes if name in values)

    def is_whole(self, values: Mapping[str, Value]) -> bool:
        """Whether there is one for every axis; a greedy trial has those of the first tasks."""
        return values.keys() == self.axes.keys()

    def lists(self, names: Iterable[str]) -> list[tuple[Value, ...]]:
        """The values of some axes; an error if one of them is a range."""
        return [self._listed(name) for name in names]

    def trials(self) -> Iterator[Trial]:
        """The grid, whatever the algorithm: the last axis moves fastest, and each point takes every seed."""
        return self._trials({}, list(self.axes))

    def trials_of(self, drawn: Mapping[str, Value], seeds: Sequence[int] | None = None) -> Iterator[Trial]:
        """The runs behind one point: every seed, and every value of the axes that the selection averages over."""
        return self._trials(drawn, list(self.selection.mean_over), seeds)

    @functools.cached_property
    def starting_points(self) -> tuple[dict[str, Value], ...]:
        """The points to try first, each once: an axis that `start` leaves out takes all its values."""
        found: dict[Configuration, dict[str, Value]] = {}
        for given in self.start:
            others = [name for name in self.drawn_axes if name not in given]
            for values in itertools.product(*self.lists(others)):
                point = {**given, **dict(zip(others, values, strict=True))}
                found.setdefault(self.configuration(point), point)
        return tuple(found.values())

    def _trials(
        self, given: Mapping[str, Value], enumerated: list[str], seeds: Sequence[int] | None = None
    ) -> Iterator[Trial]:
        for values in itertools.product(*(self._listed(name) for name in enumerated)):
            point = {**given, **dict(zip(enumerated, values, strict=True))}
            for seed in self.seeds if seeds is None else seeds:
                yield self.trial(point, seed)

    def _listed(self, name: str) -> tuple[Value, ...]:
        axis = self.axes[name]
        if isinstance(axis, Range):
            raise countless(name, self.source)
        return axis

    def trial(self, values: Mapping[str, Value], seed: int) -> Trial:
        """The trial of one value per axis, which need not be on the grid; a greedy one has those of the first tasks."""
        named = [name for name in self.axes if name in values]
        until = self._until(named)
        expected = [name for name in self.axes if until is None or (of_task(name)[1] or 0) <= until]
        if len(values) > len(named) or named != (expected if self.selection.protocol.greedy else list(self.axes)):
            raise Co2lError(f"a trial needs one value for each of {', '.join(expected)}", where=self.source)
        config = self.config(values, seed, until)
        taken = {name: values[name] if name in (VARIANT, METHOD) else config.value(name) for name in named}
        return Trial(taken, config, self._chain(config))

    def _until(self, named: Iterable[str]) -> int | None:
        """How many tasks a trial with values for these axes learns; None for all."""
        if self.selection.protocol.greedy:
            return max(of_task(name)[1] or 0 for name in named) or 1
        return self.selection.protocol.first_k

    def config(self, values: Mapping[str, Value], seed: int, until: int | None = None) -> RunConfig:
        """The configuration at a point, which may leave out axes."""
        method, given = self.method_of(values), self.given(values)
        split = self.split_of(seed)
        return configure(self.benchmark, method, given, seed=seed, split=split, until=until, where=self.source)

    def _chain(self, config: RunConfig) -> tuple[Segment, ...]:
        """Task 1, and all others together, which read the same; or every task, if settings differ by task."""
        settings, (first, later, every) = config.settings, self._read_by[config.method]
        read = config.seed, config.method, *(getattr(settings, name) for name in first)
        chain, tasks = [Segment(read, range(1))], len(config.epochs)
        if tasks > 1 and not self._by_task:
            chain.append(Segment((*read, *(getattr(settings, name) for name in later)), range(1, tasks)))
        for t in range(1, tasks if self._by_task else 1):
            settings = config.settings_of(t)
            read = *read, *(getattr(settings, name) for name in every)
            chain.append(Segment(read, range(t, t + 1)))
        return tuple(chain)

    def method_of(self, values: Mapping[str, Any]) -> str:
        """The method at a point of the axes."""
        chosen: str = {METHOD: self.method, **self.variants.get(values.get(VARIANT, ""), {}), **values}[METHOD]
        return chosen

    @property
    def methods_tried(self) -> tuple[str, ...]:
        if METHOD in self.axes:
            return tuple(map(str, self._listed(METHOD)))
        return tuple(dict.fromkeys(self.method_of({VARIANT: name}) for name in self.variants)) or (self.method,)

    @property
    def method_title(self) -> str:
        """All methods tried, as a title names them."""
        return ", ".join(self.methods_tried)

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings at a point of the axes, without the method's defaults."""
        together = {**self.methods.get(self.method_of(values), {}), **self.variants.get(values.get(VARIANT, ""), {})}
        settings = {**self.settings, **together, **values}
        return {name: value for name, value in settings.items() if name not in (VARIANT, METHOD)}

    def draw(self, rng: random.Random) -> dict[str, Value]:
        """A value at random for every axis that the selection does not average over; `trials_of` adds those."""
        drawn: dict[str, Value] = {}
        for name, axis in self.axes.items():
            if name not in self.selection.mean_over:
                drawn[name] = axis.draw(rng) if isinstance(axis, Range) else rng.choice(axis)
        return drawn

    @functools.cached_property
    def varied(self) -> tuple[str, ...]:
        """The settings in which trials differ: those of the axes, of the variants and of single methods."""
        together = (name for settings in (*self.variants.values(), *self.methods.values()) for name in settings)
        return tuple(name for name in dict.fromkeys([*self.axes, *together]) if name not in (VARIANT, METHOD))

    @functools.cached_property
    def _by_task(self) -> bool:
        """Whether settings of single tasks vary."""
        return any(of_task(name)[1] is not None for name in self.varied)

    @functools.cached_property
    def _read_by(self) -> dict[str, tuple[list[str], list[str], list[str]]]:
        """Of the varied settings, by method: those that task 1 reads, those that only later ones read, all these do."""
        read = {}
        for method in self.methods_tried:
            kind = METHODS[method].settings_type
            varied = dict.fromkeys(of_task(name)[0] for name in self.varied)
            scopes = {name: kind.scope(name) for name in varied if name in kind.model_fields}
            first = [name for name, scope in scopes.items() if scope in (Scope.EVERY, Scope.FIRST)]
            every = [name for name, scope in scopes.items() if scope in (Scope.EVERY, Scope.LATER)]
            read[method] = first, [name for name, scope in scopes.items() if scope is Scope.LATER], every
        return read

    def with_settings(self, values: Mapping[str, Any], *, where: str = "--set") -> Self:
        """The space with settings overridden: an axis keeps the value as its only one; a list is a new axis."""
        settings, axes = dict(self.settings), dict(self.axes)
        for name, value in values.items():
            for single in (each for each in self.axes if of_task(each)[0] == name and each != name):
                axes.pop(single, None)  # one value for all tasks
            if isinstance(value, list | dict):
                settings.pop(name, None)
                axes[name] = value  # type: ignore[assignment]  # `parse` checks it like the content of a file
            elif name in axes:
                axes[name] = (value,)
            else:
                settings[name] = value
        start = [{name: value for name, value in point.items() if name not in values} for point in self.start]
        return self.replace(where=where, settings=settings, axes=axes, start=start)

    def replace(self, *, where: str = "", **keys: Any) -> Self:
        """The space with some keys replaced, checked again; `where` says in errors what replaced them."""
        document = {name: getattr(self, name) for name in Document.model_fields} | keys
        changed = parse(document, f"{self.source} with {where}" if where else self.source, type(self))
        changed._source = self.source
        return changed

    def canonical(self) -> dict[str, Any]:
        """What the results depend on, defaults included: not how many trials, on what, or how often retried."""
        left_out = {
            "imports",
            "per_task",
            "start",
            "samples",
            "resources",
            "retries",
            "settings",
            "variants",
            "methods",
        }
        plain, some = self.model_dump(mode="json", exclude=left_out), self.any_trial()
        plain["selection"].pop("race", None)
        if len(self.methods_tried) > 1 or METHOD in self.axes:
            return {**plain, "settings": {}, **self._of_methods(some), **self._plugins(some)}
        if self.variants:
            together = {name for settings in self.variants.values() for name in settings}
            trials = {name: self.trial({**some.values, VARIANT: name}, some.seed) for name in self.variants}
            plain["variants"] = {name: self._described(trial.config, together) for name, trial in trials.items()}
        settings = self._described(some.config)
        return {**plain, "settings": settings, **self._plugins(some)}

    def _described(self, config: RunConfig, together: Collection[str] | None = None) -> dict[str, Any]:
        """Its settings that are not varied, or those that a variant sets together."""
        settings: dict[str, Any] = config.as_dict()["settings"]
        if together is None:
            return {name: value for name, value in settings.items() if name not in self.varied}
        wanted = {of_task(name)[0] for name in together}
        return {name: value for name, value in settings.items() if of_task(name)[0] in wanted and name not in self.axes}

    def _plugins(self, some: Trial) -> dict[str, Any]:
        """The plug-ins that its trials or its algorithm run code of, and what describes its benchmark, if any."""
        axes = [name for name in (METHOD, VARIANT, "encoder") if name in self.axes]
        points = [{name: value} for name in axes for value in self._listed(name)]
        trials = [some, *(self.trial({**some.values, **point}, some.seed) for point in points)]
        used = {ALGORITHMS.origin(self.algorithm.name), *(each for trial in trials for each in trial.config.plugins)}
        described = {"benchmark_file": some.config.spec.digest} if some.config.spec.digest else {}
        return described | ({"plugins": found} if (found := sorted(map(str, used - {None}))) else {})

    def _of_methods(self, some: Trial) -> dict[str, Any]:
        """The canonical form of what differs by method: all settings that are on no axis, for each that is named."""

        def complete(point: Mapping[str, Value]) -> dict[str, Any]:
            settings = self.trial({**some.values, **point}, some.seed).config.as_dict()["settings"]
            return {name: value for name, value in settings.items() if name not in self.axes}

        variants = {
            name: {METHOD: self.method_of({VARIANT: name}), **complete({VARIANT: name})} for name in self.variants
        }
        methods = {name: complete({METHOD: name}) for name in (self.methods_tried if METHOD in self.axes else ())}
        return {"variants": variants, "methods": methods}

    def any_trial(self) -> Trial:
        """The first on the axes; of a greedy search, in its first round."""
        first = {name: axis.low if isinstance(axis, Range) else axis[0] for name, axis in self.axes.items()}
        if self.selection.protocol.greedy:
            begin = next(iter(by_task(self.axes)))
            first = {name: value for name, value in first.items() if (of_task(name)[1] or 0) <= begin}
        return self.trial(first, self.seeds[0])

    @property
    def digest(self) -> str:
        return digest_of(self.canonical())

    def difference(self, other: Space) -> list[str]:
        """What `other` changes, a line for each key."""
        return difference(self.canonical(), other.canonical())


def load(path: str | Path, *, protocol: object = None) -> Space:
    """The space in a YAML file, perhaps with another protocol; what it imports is named as seen from there."""
    document = read(path)
    if isinstance(document, dict) and protocol is not None and isinstance(document.get("selection") or {}, dict):
        document["selection"] = {**(document.get("selection") or {}), "protocol": protocol}
    if isinstance(document, dict) and isinstance(names := document.get("imports"), list):
        folder = Path(path).absolute().parent
        document["imports"] = [_seen_from(folder, each) if isinstance(each, str) else each for each in names]
    return parse(document, str(path))


def _seen_from(folder: Path, given: str) -> str:
    return str(folder / given) if given.endswith(".py") or "/" in given else given


S = TypeVar("S", bound="Space")


@overload
def parse(document: object, source: str) -> Space: ...
@overload
def parse(document: object, source: str, kind: type[S]) -> S: ...
def parse(document: object, source: str, kind: type[Space] = Space) -> Space:
    """The space in plain data, as YAML reads it; errors call it `source`."""
    try:
        return _parse(document, source, kind)
    except Co2lError as error:  # it may quote a name of several lines
        what, fix = (re.sub(r"\s*[\r\n]\s*", " ", text) for text in (error.what, error.fix))
        raise Co2lError(what, where=error.where, fix=fix) from None


def _parse(document: object, source: str, kind: type[Space]) -> Space:
    space = shaped(document, kind, source)
    space._source = source
    use_given(space.imports)
    return checked(space)
