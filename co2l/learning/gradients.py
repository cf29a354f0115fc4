"""Gradients as vectors over all parameters: of one loss, of many losses at once, and a step along one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

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


def group_gradients(network: nn.Module, x: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """∇ of each group's mean cross-entropy, one row per group, all at once: x [k, n, …], labels and weights [k, n].

    In evaluation mode: a group's gradient depends on no other sample, and BatchNorm's statistics stay untouched.
    """
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    buffers = dict(network.named_buffers())

    def loss(parameters: dict[str, Tensor], x: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        logits = functional_call(network, (parameters, buffers), (x,))
        return (weights * F.cross_entropy(logits, labels, reduction="none")).sum() / weights.sum()

    was_training = network.training
    network.eval()
    parts = vmap(grad(loss), in_dims=(None, 0, 0, 0))(parameters, x, labels, weights)
    network.train(was_training)
    return torch.cat([part.flatten(1) for part in parts.values()], dim=1)


def sample_gradients(network: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """∇ of each sample's cross-entropy, one row per sample."""
    return group_gradients(network, x[:, None], labels[:, None], torch.ones(len(x), 1, device=x.device))
