"""What the baselines with a memory share: the buffer, in the state, and random views of what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from co2l.data.benchmarks import Benchmark
from co2l.data.buffer import Buffer
from co2l.data.randomness import stream
from co2l.data.streams import Samples
from co2l.errors import Co2lError
from co2l.learning.config import Every, Later
from co2l.learning.methods.classifier import ClassifierLearner, SequentialSettings

M = "samples kept of the past (M)"
REPLAYED = "buffered samples replayed per step"


class OnlineSettings(SequentialSettings):
    """Of methods that fill and replay their buffer from the first batch on."""

    buffer_size: Every[int] = Field(200, ge=1, description=M)
    minibatch_size: Every[int] = Field(32, ge=1, description=REPLAYED)


class BoundarySettings(SequentialSettings):
    """Of methods that fill their buffer when a task ends, so that the first task knows nothing of it."""

    buffer_size: Later[int] = Field(200, ge=1, description=M)


class ReplaySettings(BoundarySettings):
    """Of those among them that replay a part of it in every step."""

    minibatch_size: Later[int] = Field(32, ge=1, description=REPLAYED)


class Recalled(NamedTuple):
    x: Tensor  # views
    labels: Tensor
    logits: Tensor  # as stored; empty if none are


class Rehearsal(ClassifierLearner):
    stores_logits: ClassVar[bool] = False

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        """Into how many parts the policy divides the buffer, and what each of them belongs to."""
        del benchmark
        return 1, "sample"

    @classmethod
    def check(cls, settings: Any, benchmark: Benchmark, *, where: str = "") -> None:
        parts, kind = cls.shares(benchmark)
        if settings.buffer_size < parts:
            raise Co2lError(
                f"buffer_size={settings.buffer_size} is smaller than the {parts} {kind} of {benchmark.name}",
                where=where,
                fix=f"use at least {parts}",
            )

    def __init__(self, settings: Any, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        super().__init__(settings, benchmark, seed, device)
        logits = benchmark.num_classes if self.stores_logits else 0
        self.memory = Buffer.empty(benchmark.image_shape, device, logits=logits)

    def recall(self, n: int, generator: torch.Generator) -> Recalled:
        """Views of `n` random samples of the buffer, or of all if there are fewer."""
        rows = self.memory.draw(n, generator)
        logits = self.memory.logits
        return Recalled(
            self.view(self.memory.images[rows], generator),
            self.memory.labels[rows],
            torch.empty(len(rows), 0, device=self.device) if logits is None else logits[rows],
        )

    def state(self) -> dict[str, Any]:
        return {**super().state(), "memory": self.memory.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.memory = Buffer.from_state(state["memory"], self.device)


class EqualTaskShares(Rehearsal):
    """A memory of M/T random samples of each task, taken when it ends."""

    settings: BoundarySettings

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        return benchmark.tasks, "tasks"

    def end_task(self, t: int, task: Samples) -> None:
        size = (t + 1) * (self.settings.buffer_size // self.benchmark.tasks)
        generator = stream(self.seed, "task", t, "buffer")
        self.memory = self.memory.take(task, t, size, "task_balanced", generator)
