"""ER (Riemer et al. 2019): cross-entropy on the current batch and a replayed one together, from a reservoir."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.examples import Examples
from co2l.learning.config import Settings
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal


class ER(Rehearsal):
    name = "er"
    settings_type: ClassVar[type[Settings]] = OnlineSettings
    settings: OnlineSettings

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        x = self.view(now.images, generator)
        past = self.recall(self.settings.minibatch_size, generator)
        logits = self.network(torch.cat([x, self.view(past.images, generator)]))
        loss = F.cross_entropy(logits, torch.cat([now.labels, past.labels]))
        self.optimiser.descend(loss, lr)
        self.memory = buffer.add(self.memory, now, self.settings.buffer_size, "reservoir", generator)
        return {"ce": loss}
