"""The interface of a method: what a run needs to train, stop, resume and evaluate it.

A method learns one task at a time from `begin_task` to `end_task`. Its `state` after a task is all that the next
task depends on. Random numbers come from generators named by (seed, task, epoch, step), so a step is a pure function
of the state before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from co2l.data.benchmarks import Benchmark
from co2l.data.examples import Examples
from co2l.learning.config import Settings
from co2l.learning.encoders import Encoder, build_encoder, suited
from co2l.learning.methods.published import PUBLISHED
from co2l.learning.schedule import Constant, Schedule


def encoder_for(settings: Settings, benchmark: Benchmark) -> Encoder:
    """The encoder that the settings ask for, for the benchmark's images."""
    return build_encoder(
        settings.encoder,
        benchmark.image_shape,
        settings.width,
        precision=settings.precision,
        recompute=settings.recompute,
    )


FEWEST_BATCHES = 8  # of the first task, where a batch size is not chosen for the benchmark


class Method(ABC):
    name: ClassVar[str]
    settings_type: ClassVar[type[Settings]]
    scenarios: ClassVar[frozenset[str]] = frozenset({"class", "domain"})
    jointly: ClassVar[bool] = False  # learns in the last stage only, and there from all tasks' examples at once

    @classmethod
    def defaults(cls, benchmark: Benchmark) -> dict[str, Any]:
        """The settings that this method starts from on a benchmark, where they differ from those of `settings_type`.

        First what suits the benchmark, whatever the method; then what somebody published for the two of them.
        """
        fields = cls.settings_type.model_fields
        suits = {"encoder": suited(benchmark.image_shape), **benchmark.defaults}
        if benchmark.first_task and "batch_size" not in suits:
            most = max(2, benchmark.first_task // FEWEST_BATCHES)
            suits["batch_size"] = min(fields["batch_size"].default, most)
        published = PUBLISHED.get(cls.name, {}).get(benchmark.name, {})
        return {**{name: value for name, value in suits.items() if name in fields}, **published}

    @classmethod
    def check(cls, settings: Any, benchmark: Benchmark, *, where: str = "") -> None:
        """Raise Co2lError for settings that are valid one by one but not together on this benchmark."""
        del settings, benchmark, where

    @abstractmethod
    def __init__(self, settings: Any, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        """Draw the initial weights from the seed."""

    @abstractmethod
    def schedule(self, t: int) -> Schedule | Constant:
        """The epochs and learning rates of task `t` (0-based)."""

    @abstractmethod
    def begin_task(self, t: int, task: Examples) -> None:
        """Start task `t`; its examples are on the method's device and available until `end_task`."""

    @abstractmethod
    def draw(self, epoch: int) -> list[Tensor]:
        """The batches of an epoch (1-based): indices of D, on the method's device."""

    @abstractmethod
    def step(self, batch: Tensor, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        """One update; returns the losses by name, without waiting for the device."""

    def views(self, batch: Tensor) -> int:
        """How many augmented images a step makes of `batch`, for the displayed speed."""
        return len(batch)

    @abstractmethod
    def end_task(self, t: int, task: Examples) -> None:
        """Keep of task `t` what later tasks may use. Runs before task t+1, and never after the last one."""

    @abstractmethod
    def classifier(self, t: int, task: Examples, probe: str, revisited: Sequence[Examples] = ()) -> nn.Sequential:
        """Encoder and head after task `t`, standardised images to a logit per class: its own, or a probe trained now.

        `revisited` are the examples of the other tasks of `revisits`; they replace what the method remembers.
        """

    def revisits(self, t: int) -> range | None:
        """The tasks whose training examples the probe after task `t` sees, and that it is evaluated on.

        None for the usual: it sees task `t` and what the method remembers, and is evaluated on the tasks so far.
        """
        del t
        return None

    @property
    def encoder(self) -> Encoder | None:
        """The network whose features are watched for collapse; None if there is nothing to watch."""
        return None

    @classmethod
    def blank_classifier(cls, settings: Any, benchmark: Benchmark) -> nn.Sequential:
        """An encoder and a head of the shapes of `classifier`, into which its weights can be loaded."""
        encoder = encoder_for(settings, benchmark)
        return nn.Sequential(encoder, nn.Linear(encoder.dim, benchmark.num_classes))

    def buffered(self) -> Examples | None:
        """What the method remembers of past tasks, if it is examples."""
        return None

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
