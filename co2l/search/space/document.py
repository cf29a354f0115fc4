"""The shape of a space's YAML file: its keys, their types, and one line that says what is wrong with them.

Whether the values make sense for a benchmark and a method is checked in `co2l.search.space.space`.
"""

from __future__ import annotations

import difflib
import itertools
import math
import random
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from co2l.data.class_order import in_one_word
from co2l.errors import Co2lError, headline, unknown
from co2l.files import read_text
from co2l.plain_yaml import read_yaml
from co2l.search.space.choice import Greedy, Part, Protocol, Race, Selection, Transfer, Validation
from co2l.shipped import space_file, spaces

Value = bool | int | float | str
MOST_TRIALS = 1_000_000
VARIANT = "variant"  # the axis whose values are the names of the variants
METHOD = "method"  # the axis whose values are the names of methods; a variant may name one too


class Range(Part):
    """All values from `low` to `high`; whole numbers if the setting is one."""

    low: int | float = Field(description="the smallest value")
    high: int | float = Field(description="the largest value")
    log: bool = Field(False, description="true to draw evenly over orders of magnitude, else false")

    def draw(self, rng: random.Random) -> Value:
        if isinstance(self.low, int) and not self.log:
            return rng.randint(self.low, int(self.high))
        if self.log:
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            drawn = rng.uniform(self.low, self.high)
        drawn = min(max(drawn, self.low), self.high)  # exp(log(x)) may miss x by a hair
        return round(drawn) if isinstance(self.low, int) else drawn


class EarlyStop(Part):
    """Asynchronous successive halving: after so many tasks only the best of those that got there continue."""

    rungs: tuple[Annotated[int, Field(strict=True)], ...] = Field(
        (), strict=False, min_length=1, description="a list of numbers of finished tasks, as [2, 3]"
    )
    survivors: float = Field(0.5, gt=0, lt=1, description="share that continues at each rung, between 0 and 1")
    min_trials: int = Field(2, ge=2, description="trials that are compared before one is stopped, from 2")

    @field_validator("rungs")
    @classmethod
    def _ascending(cls, rungs: tuple[int, ...]) -> tuple[int, ...]:
        if rungs[0] < 1 or any(b <= a for a, b in itertools.pairwise(rungs)):
            raise ValueError("rungs must ascend, from 1 on")
        return rungs


class AlgorithmSpec(Part):
    """What decides which trial comes next, by name; which names and options there are, its registry knows."""

    model_config = ConfigDict(extra="allow")
    name: str = Field(description="the name of an algorithm, as tpe")

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: object) -> object:
        return {"name": given} if isinstance(given, str) else given

    @model_serializer
    def _plain(self) -> str | dict[str, Any]:
        return {"name": self.name, **self.options} if self.options else self.name

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.options.items())])


class Resources(Part):
    cpus: float = Field(1, ge=0.01, le=10_000, description="CPU cores of one trial, from 0.01")
    gpus: float = Field(0, ge=0, le=10_000, description="GPUs of one trial: 0, a share such as 0.25, or a whole number")

    @field_validator("gpus")
    @classmethod
    def _share_or_whole(cls, gpus: float) -> float:
        if 0 < gpus < 0.01:
            raise ValueError("a share of a GPU is at least 0.01")
        if gpus > 1 and gpus != int(gpus):
            raise ValueError("more than one GPU cannot be shared")
        return gpus


def _kind_of_axis(axis: object) -> str | None:
    if isinstance(axis, dict | Range):
        return "range"
    return "values" if isinstance(axis, list | tuple) else None


Axis = Annotated[
    Annotated[tuple[Any, ...], Tag("values"), Field(strict=False, min_length=1, max_length=10_000)]
    | Annotated[Range, Tag("range")],
    Discriminator(_kind_of_axis, custom_error_type="axis", custom_error_message="not a list of values"),
]


class Document(Part):
    benchmark: str = Field(description="the name of a task stream, as seq_cifar10")
    method: str = Field("co2l", description="the name of a method, as co2l")
    methods: dict[str, dict[str, Any]] = Field(
        {}, description="settings of the methods on the axis method, as {er: {eta: 0.1}, derpp: {alpha: 0.2}}"
    )
    imports: tuple[str, ...] = Field(
        (), strict=False, description="a list of Python files or modules with plug-ins, as [my_method.py]"
    )
    settings: dict[str, Any] = Field({}, description="settings with one value each, as {E_0: 500}")
    variants: dict[str, dict[str, Any]] = Field(
        {}, description="settings to try together, by name, as {no IRD: {distillation: none}, IRD: {distillation: ird}}"
    )
    axes: dict[str, Axis] = Field(
        {}, description="settings to try, each with a list as [0.1, 0.5] or {low: 0.01, high: 1, log: true}"
    )
    per_task: tuple[str, ...] = Field(
        (), strict=False, description="a list of axes whose value may differ from task to task"
    )
    start: tuple[dict[str, Any], ...] = Field(
        (), strict=False, max_length=10_000, description="a list of points to try first, as [{eta: 0.5, kappa: 0.1}]"
    )
    seeds: tuple[Annotated[int, Field(strict=True, ge=0)], ...] = Field(
        (0,), strict=False, min_length=1, description="a list of different whole numbers from 0, as [0, 1, 2]"
    )
    validation: Validation = Field(Validation(), description="{fraction: 0.1, seed: 0}")
    objective: Literal["val/score", "val/class_il", "val/task_il", "val/domain_il"] = Field(
        "val/score", description="what is maximised, as val/score"
    )
    selection: Selection = Field(Selection(), description="{per: [buffer_size]} or {mean_over: [buffer_size]}")
    algorithm: AlgorithmSpec = Field(
        AlgorithmSpec(name="grid"), description="a name, as tpe, or with options {name: gp, n_startup_trials: 8}"
    )
    samples: int | None = Field(
        None, ge=1, le=MOST_TRIALS, description="how many configurations are drawn, from 1; not for a grid"
    )
    early_stop: EarlyStop | None = Field(None, description="off, on or {rungs: [2, 3], survivors: 0.5}")
    resources: Resources = Field(Resources(), description="{cpus: 1, gpus: 0.25}")
    retries: int = Field(2, ge=0, le=1000, description="how often a failed trial is tried again, from 0")

    @field_validator("settings", "axes", mode="before")
    @classmethod
    def _listed_order(cls, given: object, info: ValidationInfo) -> object:
        """An order of classes may be a list, and is one value nevertheless."""
        if not isinstance(given, dict) or "class_order" not in given:
            return given
        order = given["class_order"]
        if info.field_name == "axes":
            order = [in_one_word(each) for each in order] if isinstance(order, list | tuple) else order
            return {**given, "class_order": order}
        return {**given, "class_order": in_one_word(order)}

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is there twice")
        return seeds

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


PARTS: dict[str, type[Part]] = {
    "axes": Range,
    "algorithm": AlgorithmSpec,
    "validation": Validation,
    "selection": Selection,
    "selection.protocol": Protocol,
    "selection.protocol.greedy": Greedy,
    "selection.protocol.transfer": Transfer,
    "selection.race": Race,
    "early_stop": EarlyStop,
    "resources": Resources,
}
D = TypeVar("D", bound=Document)
_PLAIN = {  # where pydantic speaks of Python's types
    "too_short": "nothing is listed",
    "too_long": "too many are listed",
    "tuple_type": "not a list",
    "dict_type": "not a set of keys",
    "model_type": "not a set of keys",
    "number": "not a number",
}


def read(path: str | Path) -> object:
    """What a YAML file holds, given by its path or by the name of a shipped space."""
    try:
        text = read_text(space_file(path))
    except UnicodeDecodeError:
        raise Co2lError("not a text file", where=str(path), fix="a search space is YAML in UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        near = difflib.get_close_matches(Path(path).name, [each.name for each in Path(path).parent.glob("*.yaml")], n=1)
        fix = f"give the path of a search space as seen from {Path.cwd()}"
        fix = f"did you mean '{Path(path).with_name(near[0])}'?" if near else fix
        if not near and (near := difflib.get_close_matches(str(path), spaces(), n=1)):
            fix = f"did you mean '{near[0]}'?"
        raise Co2lError(f"cannot be read ({reason})", where=str(path), fix=fix) from None
    return read_yaml(text, str(path))


def shaped(document: object, kind: type[D], source: str) -> D:
    """Plain data, as YAML reads it, as a `kind` of document; errors call it `source`."""
    if not isinstance(document, Mapping):
        got = "is empty" if document is None else f"holds {reprlib.repr(document)} instead of keys"
        raise Co2lError(got, where=source, fix="a search space needs at least the keys benchmark and axes")
    try:
        return kind.model_validate(dict(document))
    except ValidationError as error:
        raise _first(error, source) from None


def _first(error: ValidationError, source: str) -> Co2lError:
    """The first thing that is wrong; a misspelled key before the one that is missing because of it."""
    found = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    key, *below = found["loc"]
    path = [str(key), *(str(part) for part in below if part not in ("values", "range", "int", "float"))]
    above = (".".join(path[:end]) for end in range(len(path) - 1, 0, -1))
    model = next((PARTS[each] for each in above if each in PARTS), Document)
    if found["type"] == "extra_forbidden":
        return unknown(
            "key", path[-1], model.model_fields, where=": ".join(filter(None, [source, ".".join(path[:-1])]))
        )
    named = next((name for name in reversed(path) if name in model.model_fields), None)
    field = model.model_fields[named] if named else Document.model_fields[path[0]]
    fix = f"{named or path[0]} is: {field.description}"
    key = ".".join(path)
    if found["type"] == "missing":
        return Co2lError(f"the key '{key}' is missing", where=source, fix=fix)
    if found["type"] == "literal_error":
        valid = re.findall(r"'([^']*)'", found["ctx"]["expected"])
        return unknown(path[-1], str(found["input"]), valid, where=f"{source}: {key}")
    kind = "number" if "int" in found["loc"] else found["type"]
    message = _PLAIN.get(kind, headline(found["msg"].removeprefix("Value error, ")))
    got = reprlib.repr(found["input"])
    return Co2lError(f"{message[0].lower()}{message[1:]}, got {got}", where=f"{source}: {key}", fix=fix)
