"""What the baselines with a memory share: a buffer that is part of their state, and random examples from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.errors import Co2lError
from co2l.learning.config import Every, Later
from co2l.learning.methods.classifier import ClassifierLearner, SequentialSettings

M = "examples kept of the past (M)"
REPLAYED = "buffered examples replayed per step"


class OnlineSettings(SequentialSettings):
    """Of methods that fill and replay their buffer from the first batch on."""

    buffer_size: Every[int] = Field(200, ge=1, description=M)
    minibatch_size: Every[int] = Field(32, ge=1, description=REPLAYED)


class BoundarySettings(SequentialSettings):
    """Of methods that fill their buffer when a task ends, so the first task does not depend on it."""

    buffer_size: Later[int] = Field(200, ge=1, description=M)


class ReplaySettings(BoundarySettings):
    """Of those among them that replay a part of it in every step."""

    minibatch_size: Later[int] = Field(32, ge=1, description=REPLAYED)


class Rehearsal(ClassifierLearner):
    stores_logits: ClassVar[bool] = False

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        """Into how many parts the policy divides the buffer, and what each part is for."""
        del benchmark
        return 1, "example"

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
        self.memory = buffer.empty(benchmark.image_shape, device, logits=logits)

    def recall(self, n: int, generator: torch.Generator) -> Examples:
        """`n` random examples of the buffer, or all if there are fewer."""
        return self.memory.gather(buffer.draw(self.memory, n, generator))

    def state(self) -> dict[str, Any]:
        return {**super().state(), "memory": self.memory.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.memory = Examples.from_state(state["memory"], self.device)


class EqualTaskShares(Rehearsal):
    """A memory of M/T random examples of each task, taken when it ends."""

    settings: BoundarySettings

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        return benchmark.tasks, "tasks"

    def end_task(self, t: int, task: Examples) -> None:
        size = (t + 1) * (self.settings.buffer_size // self.benchmark.tasks)
        generator = generator_for(self.seed, "task", t, "buffer")
        self.memory = buffer.add(self.memory, task, size, "task_balanced", generator)
