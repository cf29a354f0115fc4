"""SGD whose momentum can be saved and restored, so that a stage continues where its parent ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from co2l.learning.config import Settings


class Descent:
    """Steps of `torch.optim.SGD`, by the function below it: the class loads torch's compiler, which takes longer than
    a short stage."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], *, momentum: float, weight_decay: float, fused: bool | None = None
    ) -> None:
        self._parameters = list(parameters)
        self._momentum, self._weight_decay, self._fused = momentum, weight_decay, fused
        self.buffers: dict[nn.Parameter, Tensor | None] = {}  # momentum, once there is any

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, lr: float | Tensor) -> None:
        """With the gradients that there are."""
        learning = [p for p in self._parameters if p.grad is not None]
        buffers = [self.buffers.get(p) for p in learning] if self._momentum else []
        sgd(
            learning,  # type: ignore[arg-type]  # a list of tensors
            [p.grad for p in learning if p.grad is not None],
            buffers,
            fused=self._fused,
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            lr=lr,  # type: ignore[arg-type]  # may be a tensor
            dampening=0,
            nesterov=False,
            maximize=False,
        )
        self.buffers.update(zip(learning, buffers, strict=False))  # without momentum there are none


class Optimiser:
    def __init__(self, network: nn.Module, settings: Settings) -> None:
        self._network = network
        self._descent = Descent(
            network.parameters(), momentum=settings.momentum, weight_decay=settings.weight_decay, fused=True
        )

    def descend(self, loss: Tensor, lr: float | Tensor) -> None:
        """One step down the gradient of `loss`."""
        self._descent.zero_grad()
        loss.backward()
        self.apply(lr)

    def apply(self, lr: float | Tensor) -> None:
        """One step with the gradients that the network's parameters hold; a rate may be a tensor."""
        self._descent.step(lr)

    def momentum(self) -> dict[str, Tensor]:
        """By the parameters' names; empty before the first step and without momentum."""
        found = {name: self._descent.buffers.get(p) for name, p in self._network.named_parameters()}
        return {name: buffer for name, buffer in found.items() if buffer is not None}

    def load_momentum(self, momentum: Mapping[str, Tensor]) -> None:
        for name, parameter in self._network.named_parameters():
            buffer = momentum.get(name)
            self._descent.buffers[parameter] = None if buffer is None else buffer.to(parameter.device)
