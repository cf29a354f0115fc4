"""GEM (Lopez-Paz and Ranzato 2017): no step may raise the loss on any past task's memory, to first order."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data.examples import Examples
from co2l.learning.config import Every, Later, Settings
from co2l.learning.gradients import descend_along, gradient, group_gradients
from co2l.learning.methods.rehearsal import BoundarySettings, EqualTaskShares

SHORTEST = 1e-15  # a gradient below this counts as none; its square is still a number in float32


class GEMSettings(BoundarySettings):
    eta: Every[float] = Field(0.03, gt=0, description="learning rate η")
    gamma: Later[float] = Field(0.5, ge=0, description="margin γ: how far every past gradient is followed at least")
    # of the original code: tasks known by heart, whose gradients are shorter than its root, then hardly constrain
    ridge: Later[float] = Field(1e-3, ge=0, description="on the diagonal of the quadratic program")


def project(g: Tensor, G: Tensor, gamma: float, ridge: float) -> Tensor:
    """g + Gᵀv with v = argmin ½vᵀ(GGᵀ + ridge·I)v + (Gg)ᵀv over v ≥ γ.

    Without a ridge it is the dual of the closest vector that obeys all rows of G. With v = γ + u it is a least-squares
    problem over u ≥ 0, in as many dimensions as there are past tasks, and the result is never longer than with u = 0.
    Rows are brought to about length 1 for it, as a task known by heart may have a gradient that is a million times
    shorter than another's, and on top comes a ridge as large as their rounding, which is not worth a large u.
    """
    from scipy.optimize import nnls  # takes a second to load, which only this method should wait for

    ahead = g + gamma * G.sum(0)
    scale = (G.square().sum(1) + ridge).sqrt().clamp_min(SHORTEST)
    quadratic = G @ G.T / torch.outer(scale, scale) + torch.diag(ridge / scale.square())
    linear = (G @ ahead + ridge * gamma) / scale
    program = torch.cat([quadratic, linear[:, None]], 1).cpu().double().numpy()  # at once: every copy waits
    values, vectors = np.linalg.eigh(program[:, :-1])
    root = np.sqrt(values.clip(0) + len(G) * torch.finfo(G.dtype).eps)
    u, _ = nnls(root[:, None] * vectors.T, -(vectors.T @ program[:, -1]) / root)
    return ahead + torch.as_tensor(u, dtype=G.dtype, device=G.device).div(scale) @ G


class GEM(EqualTaskShares):
    name = "gem"
    settings_type: ClassVar[type[Settings]] = GEMSettings
    settings: GEMSettings
    grouped: tuple[Examples, Tensor, Tensor] | None = None  # the memory, and its examples by task

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        loss = F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)
        g = gradient(self.network, loss)
        if len(self.memory):
            G = self.past_gradients(generator)
            if bool((G @ g < 0).any()):
                g = project(g, G, self.settings.gamma, self.settings.ridge)
        descend_along(g, self.network, self.optimiser, lr)
        return {"ce": loss}

    def past_gradients(self, generator: torch.Generator) -> Tensor:
        """The gradient of every past task on its memory, one row each."""
        if self.grouped is None or self.grouped[0] is not self.memory:  # once per task: it waits for the device
            self.grouped = self.memory, *by_task(self.memory.tasks)
        _, rows, weights = self.grouped
        x = self.view(self.memory.images, generator)
        return group_gradients(self.network, x[rows], self.memory.labels[rows], weights)


def by_task(tasks: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of each task's examples and their weights; a task with fewer than others repeats some, at weight 0."""
    _, counts = tasks.unique(return_counts=True)
    column = torch.arange(int(counts.max()), device=tasks.device)
    first = counts.cumsum(0) - counts
    rows = tasks.argsort(stable=True)[first[:, None] + column % counts[:, None]]
    return rows, (column < counts[:, None]).float()
