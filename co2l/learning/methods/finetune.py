"""Finetune (lower bound): learn each task and do nothing against forgetting."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from co2l.data.examples import Examples
from co2l.learning.config import Settings
from co2l.learning.methods.classifier import ClassifierLearner, SequentialSettings


class Finetune(ClassifierLearner):
    name = "finetune"
    settings_type: ClassVar[type[Settings]] = SequentialSettings

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        loss = F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)
        self.optimiser.descend(loss, lr)
        return {"ce": loss}
