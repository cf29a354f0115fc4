"""Gradients as vectors over all parameters: of one loss, of many losses at once, and a step along one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from co2l.learning.optimiser import Optimiser


def gradient(network: nn.Module, loss: Tensor) -> Tensor:
    """∇loss with respect to all parameters, in one vector."""
    return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(network.parameters()))])


def descend_along(g: Tensor, network: nn.Module, optimiser: Optimiser, lr: float) -> None:
    """A step of the optimiser as if g were the gradient."""
    parameters = list(network.parameters())
    parts = g.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        # in the parameter's own memory layout, as fused SGD walks both alike
        parameter.grad = torch.empty_like(parameter).copy_(part.view_as(parameter))
    optimiser.apply(lr)
