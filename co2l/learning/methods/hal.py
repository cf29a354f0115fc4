"""HAL (Chaudhry et al. 2021): replay, and steps must not move the predictions on learned anchor points.

When a task ends, one anchor per class is learned: the point that the network would forget most if it were tuned on
the buffer, near the task's mean feature φ. Anchors are kept beside the buffer, one image per class and task.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.config import Every, Keyed, Later, Settings
from co2l.learning.encoders import count_nothing
from co2l.learning.methods.classifier import Network
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal

ANCHOR_STEPS = 100


class HALSettings(OnlineSettings):
    hal_lambda: Later[float] = Field(0.1, ge=0, description="weight λ of keeping the predictions on anchors")
    beta: Every[float] = Field(0.5, ge=0, le=1, description="β: how slowly the mean feature φ follows")
    gamma: Later[float] = Field(
        0.1, ge=0, description="weight γ of an anchor's distance to φ (α in the Co²L paper's table)"
    )
    buffer_policy: Annotated[Every[Literal["ring", "reservoir"]], Keyed.IF_CHANGED] = Field(
        "ring", description="ring: the latest M/T of each task (paper); reservoir: of all seen (release)"
    )
    anchor_batchnorm: Annotated[Later[Literal["running", "batch"]], Keyed.IF_CHANGED] = Field(
        "running", description="statistics that anchors are learned with: batch are those of one anchor alone (release)"
    )


class HAL(Rehearsal):
    name = "hal"
    settings_type: ClassVar[type[Settings]] = HALSettings
    settings: HALSettings

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        return benchmark.tasks, "tasks"

    def __init__(self, settings: Any, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        super().__init__(settings, benchmark, seed, device)
        self.anchors = torch.empty(0, *benchmark.image_shape, device=device)
        self.phi = torch.zeros(self.network.encoder.dim, device=device)

    def begin_task(self, t: int, task: Examples) -> None:
        super().begin_task(t, task)
        self.phi = torch.zeros_like(self.phi)

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        x = self.view(now.images, generator)
        past = self.recall(self.settings.minibatch_size, generator)
        logits = self.network(torch.cat([x, self.view(past.images, generator)]))
        loss = F.cross_entropy(logits, torch.cat([now.labels, past.labels]))
        losses = {"ce": loss}
        if len(self.anchors):
            ahead = _ahead(self.network, loss, lr)
            with torch.no_grad():
                predicted = functional_call(self.network, ahead, (self.anchors,))
            losses["anchors"] = F.mse_loss(self.network(self.anchors), predicted)
            loss = loss + self.settings.hal_lambda * losses["anchors"]
        self.optimiser.descend(loss, lr)
        with torch.no_grad():
            self.phi = self.phi.lerp(self.network.encoder(x).mean(0), 1 - self.settings.beta)
        policy, size = self.settings.buffer_policy, self.settings.buffer_size
        kept = size // self.benchmark.tasks if policy == "ring" else size
        self.memory = buffer.add(self.memory, now, kept, policy, generator)
        return losses

    def end_task(self, t: int, task: Examples) -> None:
        """Learn the task's anchors, together or, where one's statistics are not to be another's, one by one."""
        generator = generator_for(self.seed, "task", t, "anchors", device=self.device)
        alone = self.settings.anchor_batchnorm == "batch"
        network = copy.deepcopy(self.network).train(alone)
        count_nothing(network)
        past = self.recall(self.settings.batch_size, generator)
        loss = F.cross_entropy(network(self.view(past.images, generator)), past.labels)
        tuned = _ahead(network, loss, self.settings.eta)
        classes = task.labels.unique()
        begun = torch.rand(len(classes), *self.benchmark.image_shape, generator=generator, device=self.device)
        size = 1 if alone else len(classes)
        parts = zip(begun.split(size), classes.split(size), strict=True)
        self.anchors = torch.cat([self.anchors, *(self._anchored(network, tuned, *part) for part in parts)])

    def _anchored(self, network: Network, tuned: dict[str, Tensor], e: Tensor, classes: Tensor) -> Tensor:
        """Anchors of these classes, from the points `e`."""
        for _ in range(ANCHOR_STEPS):
            e.requires_grad_(True)
            features = network.encoder(e)
            forgotten = F.cross_entropy(functional_call(network, tuned, (e,)), classes, reduction="sum")
            known = F.cross_entropy(network.head(features), classes, reduction="sum")
            away = (features - self.phi).square().sum()
            (g,) = torch.autograd.grad(known - forgotten + self.settings.gamma * away, e)
            e = (e - self.settings.eta * g).detach()
        return e

    def state(self) -> dict[str, Any]:
        return {**super().state(), "anchors": self.anchors, "phi": self.phi}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.anchors, self.phi = state["anchors"].to(self.device), state["phi"].to(self.device)


def _ahead(network: Network, loss: Tensor, lr: float) -> dict[str, Tensor]:
    """The parameters after a plain step down `loss`, whose graph is kept."""
    parameters = dict(network.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
    return {name: (p - lr * g).detach() for (name, p), g in zip(parameters.items(), gradients, strict=True)}
