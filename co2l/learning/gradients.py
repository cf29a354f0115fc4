"""Gradients as vectors over all parameters: of one loss, of many losses at once, and a step along one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from co2l.learning.encoders import Mixed
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


@contextmanager
def _fixed(network: nn.Module) -> Iterator[None]:
    """In evaluation mode and full precision: gradients are compared, and torch cannot batch BatchNorm in bf16."""
    was_training = network.training
    mixed = [part for part in network.modules() if isinstance(part, Mixed) and part.precision == "bf16"]
    network.eval()
    for part in mixed:
        part.precision = "fp32"
    try:
        yield
    finally:
        network.train(was_training)
        for part in mixed:
            part.precision = "bf16"


def group_gradients(network: nn.Module, x: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """∇ of each group's mean cross-entropy, one row per group, all at once: x [k, n, …], labels and weights [k, n].

    In evaluation mode: a group's gradient depends on no other example, and BatchNorm's statistics stay untouched.
    """
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    buffers = dict(network.named_buffers())

    def loss(parameters: dict[str, Tensor], x: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        logits = functional_call(network, (parameters, buffers), (x,))
        return (weights * F.cross_entropy(logits, labels, reduction="none")).sum() / weights.sum()

    with _fixed(network):
        parts = vmap(grad(loss), in_dims=(None, 0, 0, 0))(parameters, x, labels, weights)
    return torch.cat([part.flatten(1) for part in parts.values()], dim=1)


@dataclass(frozen=True)
class ExampleGradients:
    """∇ of each example's cross-entropy, as far as cosines need it, which is their inner products.

    A linear layer's gradient is the outer product e aᵀ of the error at its output and of its input, and in the
    small networks most parameters are in linear layers. It is never formed: ⟨e aᵀ, e′ a′ᵀ⟩ = ⟨e, e′⟩⟨a, a′⟩.
    """

    factors: tuple[tuple[Tensor, Tensor], ...]  # errors and inputs of every linear layer, one row per example
    rest: Tensor  # the gradients of all other parameters, one row per example

    @classmethod
    def of(cls, network: nn.Module, x: Tensor, labels: Tensor) -> ExampleGradients:
        """In evaluation mode, as above."""
        layers = {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.Linear)}
        fixed = {
            f"{name}.{key}": value.detach() for name, layer in layers.items() for key, value in layer.named_parameters()
        }
        free = {name: value.detach() for name, value in network.named_parameters() if name not in fixed}
        seen: dict[str, Tensor] = {}
        added: dict[str, Tensor] = {}

        def tap(name: str) -> Callable[[nn.Module, tuple[Tensor], Tensor], Tensor]:
            def note(_: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
                seen[name] = inputs[0]
                return output + added[name]

            return note

        def loss(
            free: dict[str, Tensor], zeros: dict[str, Tensor], x: Tensor, label: Tensor
        ) -> tuple[Tensor, dict[str, Tensor]]:
            added.update(zeros)
            logits = functional_call(network, (free, fixed, dict(network.named_buffers())), (x[None],))
            return F.cross_entropy(logits, label[None]), dict(seen)

        zeros = {name: x.new_zeros(len(x), layer.out_features) for name, layer in layers.items()}
        handles = [layer.register_forward_hook(tap(name)) for name, layer in layers.items()]
        try:
            with _fixed(network):
                each = vmap(grad(loss, argnums=(0, 1), has_aux=True), in_dims=(None, 0, 0, 0))
                (others, errors), inputs = each(free, zeros, x, labels)
        finally:
            for handle in handles:
                handle.remove()
        biases = [errors[name] for name, layer in layers.items() if layer.bias is not None]
        return cls(
            tuple((errors[name], inputs[name].flatten(1)) for name in layers),
            torch.cat([*(part.flatten(1) for part in others.values()), *biases], dim=1),
        )

    def products(self, other: ExampleGradients) -> Tensor:
        """⟨∇ᵢ, ∇′ⱼ⟩ for every example i of these and j of the others."""
        pairs = zip(self.factors, other.factors, strict=True)
        return self.rest @ other.rest.T + sum((e @ e2.T) * (a @ a2.T) for (e, a), (e2, a2) in pairs)

    @property
    def norms(self) -> Tensor:
        squares = self.rest.square().sum(1) + sum(e.square().sum(1) * a.square().sum(1) for e, a in self.factors)
        return squares.sqrt()
