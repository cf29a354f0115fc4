"""A run's configuration: validated settings, and the content key of every stage of its chain.

Each setting says by its type which stages read it: `Every[...]` all, `Same[...]` all with one value, `First[...]` only
task 1, `Later[...]` from task 2 on, `Probe[...]` only the linear evaluation. A stage's key holds the settings that it
reads and its parent's key, nothing else, which is why runs with other κ, E_t or buffers share their first stage. A test
records what each stage really reads and compares.

A setting may have another value in one task: `kappa/3` is that of κ in task 3. The run's path is what so differs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import reprlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
)

from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.class_order import FIXED, FORMS, ClassOrder, in_one_word, is_class_order
from co2l.data.streams import Split, TaskStream, open_stream
from co2l.errors import Co2lError, unknown
from co2l.learning.cards import Precision
from co2l.learning.encoders import ENCODERS
from co2l.learning.path import SettingsPath, in_task, of_task
from co2l.plain_yaml import read_yaml
from co2l.plugins import Plugin

VERSION = 4  # part of every key: raise it when the same settings would give other numbers

STREAM = ("tasks", "class_order")  # the settings that say what is learned, not how
LARGEST = 10**9  # no setting means anything beyond it
T = TypeVar("T")


class Scope(Enum):
    FIRST = "first"
    LATER = "later"
    EVERY = "every"
    PROBE = "probe"


class Keyed(Enum):
    """A setting that came later: at its default no key holds it, so what was stored before it is still found."""

    IF_CHANGED = "if changed"


class Varies(Enum):
    """A setting that has one value for all tasks: states after a task do not fit another, or rounding differs."""

    NEVER = "never"


First = Annotated[T, Scope.FIRST]
Later = Annotated[T, Scope.LATER]
Every = Annotated[T, Scope.EVERY]
Same = Annotated[T, Scope.EVERY, Varies.NEVER]
Probe = Annotated[T, Scope.PROBE]


class Settings(BaseModel):
    """What every method has: a task stream, a network and an optimiser. How long it learns a task is its own setting.

    The stream's settings are in no key, and in nothing else that is written, where they are the benchmark's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    encoder: Same[str] = Field(description="resnet18, mnist_conv, mnist_mlp, digits_conv or one of a plug-in")
    # torch 2.13 writes outside its memory on a CPU when it learns fewer filters than 16 with channels last
    width: Same[int] = Field(64, ge=16, description="filters of ResNet-18's first layer, from 16")
    precision: Same[Precision] = Field(
        "fp32", description="of encoder and projector: fp32, tf32 (as fp32 except on a GPU) or bf16"
    )
    recompute: Same[bool] = Field(
        False, description="ResNet-18 computes activations again to go backward: half the memory, a fifth more time"
    )
    eta: Every[float] = Field(gt=0, description="learning rate η")
    momentum: Every[float] = Field(0.9, ge=0, lt=1)
    weight_decay: Every[float] = Field(1e-4, ge=0)
    batch_size: Every[int] = Field(512, ge=2, description="examples per batch")

    tasks: Same[int] = Field(ge=2, le=10_000, description="how many tasks the benchmark is cut into, from 2")
    class_order: Same[ClassOrder] = Field(FIXED, description=f"the order in which classes come: {FORMS}")
    _own: dict[str, Any] = PrivateAttr({})  # the benchmark's settings of its stream

    @field_validator("class_order", mode="before")
    @classmethod
    def _one_word(cls, given: object) -> object:
        return in_one_word(given)

    @field_validator("class_order")
    @classmethod
    def _an_order(cls, written: ClassOrder) -> ClassOrder:
        if not is_class_order(written):
            raise ValueError("no order of classes")
        return written

    @model_serializer(mode="wrap")
    def _without_own(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        own = self._own  # read once: pydantic takes long to find it
        return {name: value for name, value in dump(self).items() if name not in own or own[name] != value}

    def on(self, spec: Benchmark) -> Self:
        """The same settings, which know what is the benchmark's own."""
        self._own = {"tasks": spec.tasks, "class_order": FIXED}
        return self

    @field_validator("encoder")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ENCODERS.find(name)
        except Co2lError as error:
            raise ValueError(str(error)) from None
        return name

    @classmethod
    @functools.cache
    def scope(cls, name: str) -> Scope:
        scopes = [mark for mark in cls.model_fields[name].metadata if isinstance(mark, Scope)]
        if len(scopes) != 1:
            raise TypeError(f"{cls.__name__}.{name} must be declared First, Later, Every or Probe")
        return scopes[0]

    @classmethod
    @functools.cache
    def why_not_in(cls, name: str, task: int) -> str:
        """Why setting `name` can have no value of its own in this task (from 1 on); empty if it can."""
        scope = cls.scope(name)
        if scope is Scope.PROBE or Varies.NEVER in cls.model_fields[name].metadata:
            return f"{name} is the same for all tasks"
        if task == 1 and scope is Scope.LATER:
            return f"task 1 does not read {name}"
        return f"only task 1 reads {name}" if task > 1 and scope is Scope.FIRST else ""

    @classmethod
    @functools.cache
    def defaults_without_key(cls) -> dict[str, Any]:
        """The settings that are in keys only if changed, at the value where they are not."""
        fields = cls.model_fields.items()
        return {name: field.default for name, field in fields if Keyed.IF_CHANGED in field.metadata}

    def keyed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a key holds of these settings."""
        silent = self.defaults_without_key()
        return {name: value for name, value in values.items() if name not in silent or value != silent[name]}

    @abstractmethod
    def epochs_per_task(self, tasks: int) -> list[int]:
        """The epochs of each of the run's `tasks` tasks."""

    def read_by_stage(self, t: int) -> dict[str, Any]:
        """The settings that stage `t` (0-based) may read, and that its key therefore holds unless they are `Keyed`."""
        return self.within({Scope.EVERY, Scope.FIRST if t == 0 else Scope.LATER})

    def within(self, scopes: set[Scope]) -> dict[str, Any]:
        return {name: value for name, value in self.model_dump().items() if self.scope(name) in scopes}


@dataclass(frozen=True)
class RunConfig:
    """Everything a run depends on, apart from the data's content and the device, which `folder` adds."""

    benchmark: str
    method: str
    seed: int
    split: Split
    settings: Settings  # with the value of each in the first task that reads it
    plugins: tuple[Plugin, ...] = ()  # that it runs code of
    path: SettingsPath = ()
    until: int | None = None  # how many tasks it learns; None for all

    @functools.cached_property
    def spec(self) -> Benchmark:
        """The benchmark, in as many tasks and with its classes in the order that the settings say."""
        return benchmark(self.benchmark).arranged(self.settings.tasks, self.settings.class_order, self.seed)

    @property
    def epochs(self) -> list[int]:
        """Of each task that the run learns."""
        tasks = self.settings.tasks
        plain = self.settings.epochs_per_task(tasks)[: self.until]
        if not self.path:
            return plain
        return [self.settings_of(t).epochs_per_task(tasks)[t] for t in range(len(plain))]

    def settings_of(self, t: int) -> Settings:
        """The settings of task `t` (0-based)."""
        return self._by_task[t] if t < len(self.path) else self.settings

    @functools.cached_property
    def _by_task(self) -> tuple[Settings, ...]:
        return tuple(self.settings.model_copy(update=dict(different)) for different in self.path)

    def value(self, name: str) -> Any:
        """The value of a setting, or that of one task, as `kappa/3`."""
        setting, task = of_task(name)
        return getattr(self.settings if task is None else self.settings_of(task - 1), setting)

    def throughout(self, t: int) -> RunConfig:
        """The run whose settings are in all tasks what they are in task `t` here."""
        return replace(self, settings=self.settings_of(t), path=()) if self.path else self

    def open_stream(self, data: Path) -> TaskStream:
        """The tasks that the run learns, below the data root."""
        return open_stream(self.spec, split=self.split, seed=self.seed, data=data, until=self.until)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, which `configure` takes."""
        return {
            "benchmark": self.benchmark,
            "method": self.method,
            "seed": self.seed,
            "split": self.split.as_dict(),
            "settings": {**self.settings.model_dump(), **self.differences()},
            **self._length(),
            **self._source(),
        }

    def differences(self) -> dict[str, Any]:
        """The path by name, as `{"kappa/3": 0.1}`."""
        return {in_task(name, t + 1): value for t, different in enumerate(self.path) for name, value in different}

    def _length(self) -> dict[str, int]:
        return {} if self.until is None else {"until": self.until}

    def _source(self) -> dict[str, list[str]]:
        """What the key of a run with plug-ins holds of them."""
        return {"plugins": [str(plugin) for plugin in self.plugins]} if self.plugins else {}

    def stage_key(self, t: int) -> str:
        """The content key of the state after task `t` (0-based)."""
        return self.stage_keys(t + 1)[t]

    def stage_keys(self, tasks: int) -> list[str]:
        """The content keys of the states after each of the first `tasks` tasks."""
        key = _digest(
            version=VERSION,
            benchmark=self._identified,
            method=self.method,
            seed=self.seed,
            split=self.split.as_dict(),
            **self._source(),
        )
        keys = []
        for t in range(tasks):
            settings = self.settings_of(t)
            key = _digest(parent=key, stage=t, settings=settings.keyed(settings.read_by_stage(t)))
            keys.append(key)
        return keys

    def row_key(self, t: int, probe: str) -> str:
        """The content key of the accuracies that `probe` measures after task `t`."""
        return self._measured_by(probe, self.stage_key(t))

    def _measured_by(self, probe: str, stage: str) -> str:
        read = self.settings.keyed(self.settings.within({Scope.PROBE}))
        return _digest(stage=stage, probe=probe, settings=read)

    @staticmethod
    def dead_key(stage: str) -> str:
        """The content key of the share of dead features in a stage's state, which no probe has to do with."""
        return _digest(stage=stage, measured="dead features")

    def keys_in_store(self, probes: Iterable[str]) -> set[str]:
        """The keys of its states, and of all that may be measured after each, by `probes` or without."""
        stages = self.stage_keys(len(self.epochs))
        rows = {self._measured_by(probe, stage) for probe in probes for stage in stages}
        return rows | {*stages, *map(self.dead_key, stages)}

    @property
    def key(self) -> str:
        """The content key of the run as a whole."""
        keyed = self.settings.keyed(self.settings.model_dump()) | self.differences()
        return _digest(version=VERSION, **{**self.as_dict(), "benchmark": self._identified, "settings": keyed})

    @property
    def _identified(self) -> str:
        """The benchmark, wherever the file lies that describes it."""
        return f"{self.spec.name} {self.spec.digest}" if self.spec.digest else self.benchmark


def folder(fingerprint: str, numerics: str) -> str:
    """The store's folder for the states of runs on these data that compute with these numerics."""
    return _digest(data=fingerprint, numerics=numerics)[:16]


def _digest(**parts: Any) -> str:
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def validate(settings_type: type[Settings], values: Mapping[str, Any], *, where: str = "") -> Settings:
    """Settings from plain values, or one line that says what is wrong with the first bad one."""
    for name, value in values.items():
        if name not in settings_type.model_fields:
            raise unknown("setting", name, settings_type.model_fields, where=where)
        if isinstance(value, int | float) and not isinstance(value, bool) and LARGEST < abs(value) < math.inf:
            raise Co2lError(
                f"{name}: too large, got {reprlib.repr(value)}", where=where, fix=f"use at most {LARGEST:g}"
            )
    try:
        return settings_type.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        got = "" if first["type"] == "missing" else f", got {reprlib.repr(first['input'])}"
        about = settings_type.model_fields[name].description if first["loc"] else None
        message = first["msg"].removeprefix("Value error, ")
        raise Co2lError(
            f"{name}: {message[0].lower()}{message[1:]}{got}",
            where=where,
            fix=f"{name} is: {about}" if about else "",
        ) from None


def parse_assignments(assignments: list[str], *, where: str = "--set") -> dict[str, Any]:
    """`["kappa=0.1", …]` as typed values; the right-hand side is YAML, so 1e-3, true and names all work."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign or not name:
            raise Co2lError(f"'{assignment}' is not key=value", where=where, fix="write for example eta=0.1")
        value = read_yaml(text, f"{where} {name}")
        if isinstance(value, str):  # YAML reads 1e-3 (no dot) as a string
            with contextlib.suppress(ValueError):
                value = float(value)
        values[name.strip()] = value
    return values
