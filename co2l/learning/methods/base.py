"""What a method must answer so that the chain of stages can run, stop, resume and evaluate it.

A method learns one task at a time from `begin_task` to `end_task`. Its `state` after a task is all that the next
task depends on. Random numbers come from streams named by (seed, task, epoch, step), so a step is a
pure function of the state before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from co2l.data.benchmarks import Benchmark
from co2l.data.buffer import Batch
from co2l.data.streams import Samples
from co2l.learning.config import Settings
from co2l.learning.encoders import build_encoder
from co2l.learning.schedule import Schedule

Classifier = Callable[[Tensor], Tensor]  # normalised images -> one logit per class
Revisited = Sequence[tuple[int, Samples]]  # tasks with all their training samples


class Method(ABC):
    settings_type: ClassVar[type[Settings]]
    scenarios: ClassVar[frozenset[str]] = frozenset({"class", "domain"})

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
    def schedule(self, t: int) -> Schedule:
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

    @abstractmethod
    def end_task(self, t: int, task: Samples) -> None:
        """Keep of task `t` what later tasks may use. Runs before task t+1, and never after the last one."""

    @abstractmethod
    def classifier(self, t: int, task: Samples, probe: str, revisited: Revisited = ()) -> Classifier:
        """The classifier after task `t`: the method's own, or a probe trained for the purpose.

        `revisited` are the other tasks of `revisits`, whose samples take the place of what the method remembers.
        """

    def revisits(self, t: int) -> range | None:
        """The tasks whose training samples the probe after task `t` sees, and that it is judged on.

        None for the usual: it sees task `t` and what the method remembers, and is judged on the tasks so far.
        """
        del t
        return None

    @classmethod
    def blank_classifier(cls, settings: Any, benchmark: Benchmark) -> nn.Sequential:
        """An encoder and a head of the shapes of `classifier`, into which its weights can be loaded."""
        encoder = build_encoder(settings.encoder, benchmark.image_shape, settings.width)
        return nn.Sequential(encoder, nn.Linear(encoder.dim, benchmark.num_classes))

    def buffered(self) -> Batch | None:
        """What the method remembers of past tasks, if it is samples."""
        return None

    @abstractmethod
    def final_probe(self) -> str:
        """The probe whose accuracy is the run's result."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that the next task depends on, and together with `begin_task` all that the next step does."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> None: ...
