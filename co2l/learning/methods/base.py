"""What a method must answer so that the chain of stages can run, stop, resume and evaluate it.

A method learns one task at a time from `begin_task` to `end_task`. Its `state` after a task is all that the next
task depends on. Random numbers come from streams named by (seed, task, epoch, step), so a step is a
pure function of the state before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from co2l.data.benchmarks import Benchmark
from co2l.data.streams import Samples
from co2l.learning.config import Settings
from co2l.learning.schedule import Constant, Schedule

Classifier = Callable[[Tensor], Tensor]  # normalised images -> one logit per class


class Method(ABC):
    settings_type: ClassVar[type[Settings]]
    scenarios: ClassVar[frozenset[str]] = frozenset({"class", "domain"})
    jointly: ClassVar[bool] = False  # learns in the last stage only, and there from all tasks' samples at once

    @classmethod
    @abstractmethod
    def defaults(cls, benchmark: Benchmark) -> dict[str, Any]:
        """The settings this method starts from on a benchmark."""

    @classmethod
    @abstractmethod
    def check(cls, settings: Any, benchmark: Benchmark, *, where: str = "") -> None:
        """Raise Co2lError for settings that are valid one by one but not together on this benchmark."""

    @abstractmethod
    def __init__(self, settings: Any, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        """Draw the initial weights from the seed."""

    @abstractmethod
    def schedule(self, t: int) -> Schedule | Constant:
        """The epochs and learning rates of task `t` (0-based)."""

    @abstractmethod
    def begin_task(self, t: int, task: Samples) -> None:
        """Take up task `t`; its samples are on the method's device and at hand until `end_task`."""

    @abstractmethod
    def draw(self, epoch: int) -> list[Tensor]:
        """The index batches of an epoch (1-based)."""

    @abstractmethod
    def step(self, batch: Tensor, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        """One update; returns the losses by name, without waiting for the device."""

    def views(self, batch: Tensor) -> int:
        """How many augmented images a step makes of `batch`, for the speed that is shown."""
        return len(batch)

    @abstractmethod
    def end_task(self, t: int, task: Samples) -> None:
        """Keep of task `t` what later tasks may use. Runs before task t+1, and never after the last one."""

    @abstractmethod
    def classifier(self, t: int, task: Samples, probe: str) -> Classifier:
        """The classifier after task `t`: the method's own, or a probe trained for the purpose."""

    @classmethod
    @abstractmethod
    def matrix_probe(cls, settings: Any) -> str | None:
        """The probe behind the accuracies after every task, or None if there are none."""

    @abstractmethod
    def final_probe(self) -> str:
        """The probe whose accuracy is the run's result."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that the next task depends on, and together with `begin_task` all that the next step does."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> None: ...
