"""DER and DER++ (Buzzega et al. 2020): replayed examples must keep the logits they had when they were stored.

The reservoir takes examples during training, so the stored logits come from all along the optimisation, and the
first task replays too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.examples import Examples
from co2l.learning.config import Every, Settings
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal


class DERSettings(OnlineSettings):
    alpha: Every[float] = Field(0.5, ge=0, description="weight α of keeping the stored logits")


class DERppSettings(DERSettings):
    beta: Every[float] = Field(0.5, ge=0, description="weight β of the replayed examples' cross-entropy")


class DER(Rehearsal):
    name = "der"
    settings_type: ClassVar[type[Settings]] = DERSettings
    settings: DERSettings
    stores_logits = True

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        logits = self.network(self.view(now.images, generator))
        losses = {"ce": F.cross_entropy(logits, now.labels)}
        loss = losses["ce"]
        if len(self.memory):
            for name, (weight, term) in self.replayed(generator).items():
                losses[name] = term
                loss = loss + weight * term
        self.optimiser.descend(loss, lr)
        answered = replace(now, logits=logits.detach())
        self.memory = buffer.add(self.memory, answered, self.settings.buffer_size, "reservoir", generator)
        return losses

    def replayed(self, generator: torch.Generator) -> dict[str, tuple[float, Tensor]]:
        """The losses on the buffer with their weights."""
        past = self.recall(self.settings.minibatch_size, generator)
        assert past.logits is not None
        answers = self.network(self.view(past.images, generator))
        return {"logits": (self.settings.alpha, F.mse_loss(answers, past.logits))}


class DERpp(DER):
    name = "derpp"
    settings_type: ClassVar[type[Settings]] = DERppSettings
    settings: DERppSettings

    def replayed(self, generator: torch.Generator) -> dict[str, tuple[float, Tensor]]:
        kept = super().replayed(generator)
        past = self.recall(self.settings.minibatch_size, generator)  # a second draw
        answers = self.network(self.view(past.images, generator))
        return {**kept, "replay": (self.settings.beta, F.cross_entropy(answers, past.labels))}
