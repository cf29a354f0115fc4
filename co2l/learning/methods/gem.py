"""GEM (Lopez-Paz and Ranzato 2017): no step may raise the loss on any past task's memory, to first order."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data.streams import Samples
from co2l.learning.config import Later, Settings
from co2l.learning.gradients import descend_along, gradient, group_gradients
from co2l.learning.methods.rehearsal import BoundarySettings, EqualTaskShares

SHORTEST = 1e-15  # a gradient below this counts as none; its square is still a number in float32


class GEMSettings(BoundarySettings):
    gamma: Later[float] = Field(ge=0, description="margin γ: how far every past gradient is followed at least")


def project(g: Tensor, G: Tensor, gamma: float) -> Tensor:
    """g + Gᵀv with v = argmin ½vᵀGGᵀv + (Gg)ᵀv over v ≥ γ, the dual of the closest vector that obeys all rows of G.

    With v = γ + u it is a least-squares problem over u ≥ 0, in as many dimensions as there are past tasks. Rows are
    brought to length 1 for it: a task known by heart has a gradient that is a million times shorter than another's.
    The ridge is as large as G's rounding; with it no direction that is rounding alone is worth a large u, and the
    result is never longer than with u = 0.
    """
    from scipy.optimize import nnls  # takes a second to load, which only this method should wait for

    ahead = g + gamma * G.sum(0)
    lengths = torch.linalg.vector_norm(G, dim=1).clamp_min(SHORTEST)
    cosines = (G @ G.T / torch.outer(lengths, lengths)).double().cpu().numpy()
    linear = (G @ ahead / lengths).double().cpu().numpy()
    values, vectors = np.linalg.eigh(cosines)
    root = np.sqrt(values.clip(0) + len(G) * torch.finfo(G.dtype).eps)
    u, _ = nnls(root[:, None] * vectors.T, -(vectors.T @ linear) / root)
    return ahead + torch.as_tensor(u, dtype=G.dtype, device=G.device).div(lengths) @ G


class GEM(EqualTaskShares):
    name = "gem"
    settings_type: ClassVar[type[Settings]] = GEMSettings
    settings: GEMSettings

    def learn(self, now: Samples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        loss = F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)
        g = gradient(self.network, loss)
        if len(self.memory):
            G = self.past_gradients(generator)
            if bool((G @ g < 0).any()):
                g = project(g, G, self.settings.gamma)
        descend_along(g, self.network, self.optimiser, lr)
        return {"ce": loss}

    def past_gradients(self, generator: torch.Generator) -> Tensor:
        """The gradient of every past task on its memory, one row each."""
        x = self.view(self.memory.images, generator)
        tasks, counts = self.memory.tasks.unique(return_counts=True)
        column = torch.arange(int(counts.max()), device=self.device)
        # a task with fewer samples than the others fills its row with some again, at weight 0
        rows = torch.stack(
            [(self.memory.tasks == t).nonzero().squeeze(1)[column % n] for t, n in zip(tasks, counts, strict=True)]
        )
        return group_gradients(self.network, x[rows], self.memory.labels[rows], (column < counts[:, None]).float())
