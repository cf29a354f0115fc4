"""What the baselines share: a network with one linear head, trained by SGD at a constant rate on one view per example.

A baseline's module shows only its mechanism: what `learn` makes of a batch, and what is kept for later.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from co2l.data import buffer
from co2l.data.augmentation import augment, shift_and_flip
from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples, batches, concatenate
from co2l.data.randomness import generator_for
from co2l.learning.config import Every, Probe, Settings
from co2l.learning.encoders import Encoder, initialised
from co2l.learning.methods.base import Method, encoder_for
from co2l.learning.optimiser import Optimiser
from co2l.learning.schedule import Constant


class ClassifierSettings(Settings):
    eta: Every[float] = Field(0.1, gt=0, description="learning rate η")
    momentum: Every[float] = Field(0.0, ge=0, lt=1)
    weight_decay: Every[float] = Field(0.0, ge=0)
    batch_size: Every[int] = Field(32, ge=2, description="examples of the current task per batch")
    epochs: Every[int] = Field(10, ge=1, description="epochs of every task")
    augment: Every[Literal["views", "shift_flip", "none"]] = Field(
        "views",
        description="learn from random views as Co²L does, from images moved a little and flipped, or plain ones",
    )

    def epochs_per_task(self, tasks: int) -> list[int]:
        return [self.epochs] * tasks


class SequentialSettings(ClassifierSettings):
    matrix_probe: Probe[Literal["own", "none"]] = Field(
        "own", description="measure the accuracy matrix after every task with the method's own classifier, or not"
    )


class Network(nn.Sequential):
    """One logit per class of the whole stream, whatever the task."""

    def __init__(self, encoder: Encoder, classes: int) -> None:
        super().__init__(encoder, nn.Linear(encoder.dim, classes))

    @property
    def encoder(self) -> Encoder:
        return self[0]  # type: ignore[return-value]  # Sequential does not know its parts

    @property
    def head(self) -> nn.Module:
        return self[1]


class ClassifierLearner(Method):
    settings: ClassifierSettings

    def __init__(self, settings: Any, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        self.settings, self.benchmark, self.seed, self.device = settings, benchmark, seed, device
        self.network = initialised(self._network, seed, "init").to(device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's types
        self.optimiser = Optimiser(self.network, settings)

    def _network(self) -> Network:
        return Network(encoder_for(self.settings, self.benchmark), self.benchmark.num_classes)

    @property
    def encoder(self) -> Encoder:
        return self.network.encoder

    def schedule(self, t: int) -> Constant:  # noqa: ARG002  # the same for every task
        return Constant(self.settings.eta, self.settings.epochs)

    def begin_task(self, t: int, task: Examples) -> None:
        self.t, self.current = t, len(task)
        self.D = concatenate([task, self.mixed_in()])  # the current task's examples first
        self.network.train()

    def mixed_in(self) -> Examples:
        """Past examples that epochs go over like those of the task."""
        return buffer.empty(self.benchmark.image_shape, self.device)

    def draw(self, epoch: int) -> list[Tensor]:
        order = generator_for(self.seed, "task", self.t, "epoch", epoch, "order")
        drawn = torch.randperm(len(self.D), generator=order)
        return batches(drawn, self.settings.batch_size, self.current, self.device)

    def step(self, batch: Tensor, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        losses = self.learn(self.D.gather(batch), lr, generator)
        return {name: loss.detach() for name, loss in losses.items()}

    @abstractmethod
    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        """Update the network on the batch `now`; returns the losses by name."""

    def view(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """What the network is shown of un-augmented images: a random view of each."""
        if self.settings.augment == "views":
            images = augment(images, self.benchmark.augmentation, generator)
        elif self.settings.augment == "shift_flip":
            images = shift_and_flip(images, generator)
        return standardise(images, self.benchmark)

    def end_task(self, t: int, task: Examples) -> None:
        """Keep nothing."""

    def classifier(self, t: int, task: Examples, probe: str, revisited: Sequence[Examples] = ()) -> nn.Sequential:
        del t, task, probe, revisited  # it is trained already
        return self.network.eval()

    @classmethod
    def matrix_probe(cls, settings: SequentialSettings) -> str | None:
        return None if settings.matrix_probe == "none" else "own"

    def final_probe(self) -> str:
        return "own"

    def state(self) -> dict[str, Any]:
        return {"network": dict(self.network.state_dict()), "momentum": self.optimiser.momentum()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.optimiser.load_momentum(state["momentum"])
