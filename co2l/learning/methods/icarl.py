"""iCaRL (Rebuffi et al. 2017): distilled binary cross-entropy, herded exemplars, and the nearest mean of them.

An exemplar stands for its class among all seen so far, which is why it serves only streams that bring new classes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.buffer_policies import herding_ranks
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.config import Every, Settings
from co2l.learning.methods.base import encoder_for
from co2l.learning.methods.classifier import Network, SequentialSettings
from co2l.learning.methods.rehearsal import M, Rehearsal
from co2l.learning.probe import ENCODING_BATCH


class ICaRLSettings(SequentialSettings):
    weight_decay: Every[float] = Field(1e-5, ge=0)
    buffer_size: Every[int] = Field(200, ge=1, description=M)  # the first task is already evaluated by its exemplars


def distilled_targets(labels: Tensor, old: Tensor | None, before: int, seen: int) -> Tensor:
    """One-hot for the `seen` classes; for the first `before` of them what the old network answered instead."""
    targets = F.one_hot(labels, seen).to(torch.float32 if old is None else old.dtype)
    if old is not None:
        targets[:, :before] = old[:, :before].sigmoid()
    return targets


class NearestMean(nn.Module):
    """Features to minus their distance from the mean of each class's exemplars; unknown classes are never predicted."""

    means: Tensor
    known: Tensor

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(classes, dim))
        self.register_buffer("known", torch.zeros(classes, dtype=torch.bool))

    def learn(self, label: int, exemplars: Tensor) -> None:
        self.means[label] = F.normalize(exemplars.mean(0), dim=0)
        self.known[label] = True

    def forward(self, h: Tensor) -> Tensor:
        return (-torch.cdist(F.normalize(h), self.means)).masked_fill(~self.known, -torch.inf)


class ICaRL(Rehearsal):
    name = "icarl"
    settings_type: ClassVar[type[Settings]] = ICaRLSettings
    settings: ICaRLSettings
    scenarios = frozenset({"class"})

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        return benchmark.num_classes, "classes"

    def mixed_in(self) -> Examples:
        return self.memory

    def begin_task(self, t: int, task: Examples) -> None:
        super().begin_task(t, task)
        self.old: Network | None = copy.deepcopy(self.network).eval() if t > 0 else None

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        x = self.view(now.images, generator)
        before = self.t * self.benchmark.classes_per_task
        seen = before + self.benchmark.classes_per_task
        with torch.no_grad():
            old = None if self.old is None else self.old(x)
        targets = distilled_targets(now.labels, old, before, seen)
        loss = F.binary_cross_entropy_with_logits(self.network(x)[:, :seen], targets)
        self.optimiser.descend(loss, lr)
        return {"bce": loss}

    def end_task(self, t: int, task: Examples) -> None:
        self.memory = self._exemplars(t, task)

    def _exemplars(self, t: int, task: Examples) -> Examples:
        """The buffer with the classes of task `t`: M/#classes of each class, the first of its herding order."""
        classes = (t + 1) * self.benchmark.classes_per_task
        each = self.settings.buffer_size // classes
        features = torch.cat([self._features(part.images) for part in task.split(ENCODING_BATCH)])
        ranked = replace(task, priorities=herding_ranks(features, task.labels, each))
        unused = generator_for(self.seed, "task", t, "buffer")  # equal shares leave nothing to draw
        return buffer.add(self.memory, ranked, each * classes, "class_balanced", unused)

    @torch.no_grad()
    def _features(self, images: Tensor) -> Tensor:
        self.network.eval()
        return F.normalize(self.network.encoder(standardise(images, self.benchmark)))

    def classifier(self, t: int, task: Examples, probe: str, revisited: Sequence[Examples] = ()) -> nn.Sequential:
        del probe, revisited  # iCaRL has one classifier
        exemplars = self._exemplars(t, task)
        features = self._features(exemplars.images)
        nearest = NearestMean(features.shape[1], self.benchmark.num_classes).to(features)
        for label in exemplars.labels.unique():
            nearest.learn(int(label), features[exemplars.labels == label])
        return nn.Sequential(self.network.encoder, nearest).eval()

    @classmethod
    def blank_classifier(cls, settings: ICaRLSettings, benchmark: Benchmark) -> nn.Sequential:
        encoder = encoder_for(settings, benchmark)
        return nn.Sequential(encoder, NearestMean(encoder.dim, benchmark.num_classes))
