"""A search space: a YAML file that says what is fixed, what is tried, and how the best is chosen.

`load` answers a wrong file with one line that names the file, the key and what would be right. A space that was
loaded is immutable, and every one of its cells is a valid run configuration.
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
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    field_validator,
)

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.streams import Split
from co2l.errors import Co2lError, unknown
from co2l.learning.config import RunConfig, Scope
from co2l.learning.methods import METHODS, configure
from co2l.learning.metrics import scenarios

Value = bool | int | float | str


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Range(_Part):
    """All values from `low` to `high`; whole numbers if the setting is one."""

    low: int | float = Field(description="the smallest value")
    high: int | float = Field(description="the largest value")
    log: bool = Field(False, description="true to draw evenly over orders of magnitude")

    def draw(self, rng: random.Random) -> Value:
        if self.log:
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        elif isinstance(self.low, int):
            return rng.randint(self.low, int(self.high))
        else:
            drawn = rng.uniform(self.low, self.high)
        drawn = min(max(drawn, self.low), self.high)
        return round(drawn) if isinstance(self.low, int) else drawn


class Validation(_Part):
    fraction: float = Field(0.1, gt=0, lt=1, description="share of the training samples, between 0 and 1")
    seed: int = Field(0, ge=0, description="a whole number from 0, which draws them")


class Selection(_Part):
    per: tuple[str, ...] = Field((), strict=False, description="axes: one choice for each of their values")
    mean_over: tuple[str, ...] = Field((), strict=False, description="axes: one choice for all their values")


class EarlyStop(_Part):
    """Asynchronous successive halving: after so many tasks, go on only among the best of those that came so far."""

    rungs: tuple[int, ...] = Field((), strict=False, min_length=1, description="numbers of finished tasks, as [1, 2]")
    keep: float = Field(0.5, gt=0, lt=1, description="share that goes on at each rung, between 0 and 1")
    min_cells: int = Field(4, ge=2, description="cells that are compared before one is stopped, from 2")

    @field_validator("rungs")
    @classmethod
    def _ascending(cls, rungs: tuple[int, ...]) -> tuple[int, ...]:
        if rungs[0] < 1 or any(b <= a for a, b in itertools.pairwise(rungs)):
            raise ValueError("rungs must ascend from 1")
        return rungs


class Resources(_Part):
    cpus: float = Field(1, gt=0, description="CPU cores of one trial, above 0")
    gpus: float = Field(0, ge=0, description="GPUs of one trial: 0, a share such as 0.25, or a whole number")

    @field_validator("gpus")
    @classmethod
    def _share_or_whole(cls, gpus: float) -> float:
        if gpus > 1 and gpus != int(gpus):
            raise ValueError("more than one GPU cannot be shared")
        return gpus


def _kind_of_axis(axis: object) -> str | None:
    if isinstance(axis, dict | Range):
        return "range"
    return "values" if isinstance(axis, list | tuple) else None


Values = tuple[Value, ...]
Axis = Annotated[
    Annotated[Values, Tag("values"), Field(strict=False, min_length=1)] | Annotated[Range, Tag("range")],
    Discriminator(_kind_of_axis, custom_error_type="axis", custom_error_message="not a list of values"),
]


@dataclass(frozen=True)
class Cell:
    """One run of a search: a value for every axis, and a seed."""

    values: Mapping[str, Value]
    config: RunConfig
    prefix: tuple[Value, ...]  # what tells its first stage from those of the space's other cells

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


class Space(_Part):
    benchmark: str = Field(description=f"one of {', '.join(BENCHMARKS)}")
    method: str = Field("co2l", description="how to learn, as co2l")
    settings: dict[str, Any] = Field({}, description="settings with one value each, as {E_0: 500}")
    axes: dict[str, Axis] = Field(
        min_length=1, description="settings to try: a list such as [0.1, 0.5], or {low: 0.01, high: 1, log: true}"
    )
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (0,), strict=False, min_length=1, description="a list of whole numbers from 0, as [0, 1, 2]"
    )
    validation: Validation = Field(Validation(), description="{fraction: 0.1, seed: 0}")
    objective: Literal["val/score", "val/class_il", "val/task_il", "val/domain_il"] = Field(
        "val/score", description="what is maximised, as val/score"
    )
    selection: Selection = Field(Selection(), description="{per: [buffer_size]} or {mean_over: [buffer_size]}")
    algorithm: Literal["grid", "random", "tpe"] = Field("grid", description="grid, random or tpe")
    samples: int | None = Field(None, ge=1, description="how many settings random or tpe try, from 1")
    early_stop: EarlyStop | None = Field(None, description="off, on or {rungs: [1, 2], keep: 0.5}")
    resources: Resources = Field(Resources(), description="{cpus: 1, gpus: 0.25}")
    retries: int = Field(2, ge=0, description="how often a failed cell is tried again, from 0")
    _source: str = PrivateAttr("space")

    @field_validator("objective", mode="before")
    @classmethod
    def _of_validation(cls, name: object) -> object:
        return f"val/{name}" if isinstance(name, str) and "/" not in name else name

    @field_validator("early_stop", mode="before")
    @classmethod
    def _switch(cls, given: object) -> object:
        """YAML reads on and off as true and false."""
        if given is False or given == "off":
            return None
        return {} if given is True or given == "on" else given

    @property
    def source(self) -> str:
        """The file it came from, as errors name it."""
        return self._source

    @property
    def size(self) -> int | None:
        """The number of cells of the grid, or None if a range makes them countless."""
        lists = [axis for axis in self.axes.values() if not isinstance(axis, Range)]
        return math.prod(map(len, lists)) * len(self.seeds) if len(lists) == len(self.axes) else None

    def cells(self) -> Iterator[Cell]:
        """The grid, whatever the algorithm: the last axis moves fastest, and every seed of a setting in turn."""
        for name, axis in self.axes.items():
            if isinstance(axis, Range):
                raise _grid_of_range(name, axis, self.source)
        for values in itertools.product(*self.axes.values()):  # type: ignore[arg-type]  # no ranges left
            point = dict(zip(self.axes, values, strict=True))
            for seed in self.seeds:
                yield self.cell(point, seed)

    def cell(self, values: Mapping[str, Value], seed: int) -> Cell:
        """The cell of one value per axis, which need not be on the grid."""
        if values.keys() != self.axes.keys():
            raise Co2lError(f"a cell needs a value for each of {', '.join(self.axes)}", where=self.source)
        split = Split("search", self.validation.fraction, self.validation.seed)
        given = {**self.settings, **values}
        config = configure(self.benchmark, self.method, given, seed=seed, split=split, where=self.source)
        taken = {name: getattr(config.settings, name) for name in self.axes}
        return Cell(taken, config, (seed, *(taken[name] for name in self.read_by_first_stage)))

    def draw(self, rng: random.Random) -> dict[str, Value]:
        """A value for every axis that is sampled, at random; `cells_of` completes it."""
        sampled = {name: axis for name, axis in self.axes.items() if name not in self.selection.mean_over}
        return {name: axis.draw(rng) if isinstance(axis, Range) else rng.choice(axis) for name, axis in sampled.items()}

    def cells_of(self, sampled: Mapping[str, Value]) -> Iterator[Cell]:
        """The runs behind one sample: every seed, and every value of the axes that the selection averages over."""
        over = {name: self.axes[name] for name in self.selection.mean_over}
        for values in itertools.product(*over.values()):  # type: ignore[arg-type]  # no ranges: see _check_selection
            point = {**sampled, **dict(zip(over, values, strict=True))}
            for seed in self.seeds:
                yield self.cell({name: point[name] for name in self.axes}, seed)

    @functools.cached_property
    def read_by_first_stage(self) -> tuple[str, ...]:
        """The axes on which the first stage depends."""
        scope = METHODS[self.method].settings_type.scope
        return tuple(name for name in self.axes if scope(name) in (Scope.EVERY, Scope.FIRST))

    def with_settings(self, values: Mapping[str, Any], *, source: str = "--set") -> Space:
        """The space with settings overridden: an axis takes the value as its only one; a list is a new axis."""
        settings, axes = dict(self.settings), dict(self.axes)
        for name, value in values.items():
            if isinstance(value, list | dict):
                settings.pop(name, None)
                axes[name] = value  # type: ignore[assignment]  # checked by `parse`, as what a file holds
            elif name in axes:
                axes[name] = (value,)
            else:
                settings[name] = value
        return self.replace(settings=settings, axes=axes, source=f"{self.source} with {source}")

    def replace(self, *, source: str = "", **changes: Any) -> Space:
        """The space with some keys replaced, checked again."""
        document = {name: getattr(self, name) for name in type(self).model_fields} | changes
        space = parse(document, source or self.source)
        space._source = self.source
        return space

    def canonical(self) -> dict[str, Any]:
        """What the results depend on, defaults included: not how many samples, on what, or how often retried."""
        plain = self.model_dump(mode="json", exclude={"samples", "resources", "retries", "settings"})
        point = {name: axis.low if isinstance(axis, Range) else axis[0] for name, axis in self.axes.items()}
        fixed = self.cell(point, self.seeds[0]).config.settings.model_dump(mode="json", exclude=set(self.axes))
        return {**plain, "settings": fixed}

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
    names = [*old, *(name for name in new if name not in old)]
    show = {True: json.dumps, False: lambda _: "nothing"}
    return [
        f"{name}: {show[name in old](old.get(name))} → {show[name in new](new.get(name))}"
        for name in names
        if name not in old or name not in new or old[name] != new[name]
    ]


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def load(path: str | Path) -> Space:
    """The space in a YAML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Co2lError("not a text file", where=str(path), fix="a search space is YAML in UTF-8") from None
    except OSError as error:
        fix = "give the path of a search space, such as search_spaces/seq_digits.yaml"
        raise Co2lError(f"cannot be read ({error.strerror})", where=str(path), fix=fix) from None
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader that refuses more)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise Co2lError(f"not valid YAML{line}: {error.problem}", where=str(path), fix="correct that line") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise Co2lError(f"not valid YAML: {reason}", where=str(path), fix="correct that value") from None
    return parse(document, str(path))


class _Loader(yaml.SafeLoader):
    """Refuses what YAML would let pass in silence: a key that is there twice, and one that is not text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if not isinstance(key, str):
                problem = f"the key {key_node.value if isinstance(key_node, yaml.ScalarNode) else key!r} is not text"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"'{key}' is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse(document: object, source: str) -> Space:
    """A space from plain data, as YAML reads it; `source` is what errors name as its place."""
    if not isinstance(document, Mapping):
        got = "is empty" if document is None else f"holds {reprlib.repr(document)} instead of keys"
        raise Co2lError(got, where=source, fix="a search space needs at least the keys benchmark and axes")
    try:
        space = Space.model_validate(dict(document))
    except ValidationError as error:
        raise _shape_error(error, source) from None
    _check_names(space, source)
    space = space.model_copy(update={"axes": _checked_axes(space, source)})
    _check_selection(space, source)
    space = space.model_copy(update={"early_stop": _checked_early_stop(space, source)})
    space._source = source
    return space


def _shape_error(error: ValidationError, source: str) -> Co2lError:
    """The first thing that is wrong; a misspelt key before the one that is missing because of it."""
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    path = [str(part) for part in first["loc"] if part not in ("values", "range")]
    key, message = ".".join(path), first["msg"].removeprefix("Value error, ")
    field = Space.model_fields.get(path[0])
    model: type[BaseModel] = _PARTS.get(path[0], Space) if len(path) > 1 else Space
    if first["type"] == "extra_forbidden":
        return unknown(
            "key", path[-1], model.model_fields, where=": ".join([source, *filter(None, [key[: -len(path[-1]) - 1]])])
        )
    right = next((model.model_fields[name].description for name in reversed(path) if name in model.model_fields), None)
    fix = f"{path[0] if model is Space else key} is: {right or (field.description if field else '')}"
    if first["type"] == "missing":
        return Co2lError(f"the key '{key}' is missing", where=source, fix=fix)
    if first["type"] == "literal_error":
        valid = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        return unknown(path[-1], str(first["input"]), valid, where=f"{source}: {key}")
    got = reprlib.repr(first["input"])
    return Co2lError(f"{message[0].lower()}{message[1:]}, got {got}", where=f"{source}: {key}", fix=fix)
