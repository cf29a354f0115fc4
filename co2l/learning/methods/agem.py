"""A-GEM (Chaudhry et al. 2019): no step may raise the loss on a batch from memory, to first order."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from co2l.data.examples import Examples
from co2l.learning.config import Settings
from co2l.learning.gradients import descend_along, gradient
from co2l.learning.methods.rehearsal import EqualTaskShares, ReplaySettings


def project(g: Tensor, r: Tensor) -> Tensor:
    """The vector closest to g that does not point against r."""
    inner = g @ r
    return torch.where(inner < 0, g - inner / (r @ r).clamp_min(torch.finfo(r.dtype).tiny) * r, g)


class AGEM(EqualTaskShares):
    name = "agem"
    settings_type: ClassVar[type[Settings]] = ReplaySettings
    settings: ReplaySettings

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        loss = F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)
        g = gradient(self.network, loss)
        losses = {"ce": loss}
        if len(self.memory):
            past = self.recall(self.settings.minibatch_size, generator)
            losses["replay"] = F.cross_entropy(self.network(self.view(past.images, generator)), past.labels)
            g = project(g, gradient(self.network, losses["replay"]))
        descend_along(g, self.network, self.optimiser, lr)
        return losses
