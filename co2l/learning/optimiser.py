"""SGD whose momentum can be saved and restored, so that a stage continues where its parent ended."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from co2l.learning.config import Settings


class Optimiser:
    def __init__(self, network: nn.Module, settings: Settings) -> None:
        self._network = network
        self._sgd = torch.optim.SGD(
            network.parameters(),
            lr=settings.eta,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def descend(self, loss: Tensor, lr: float | Tensor) -> None:
        """One step down the gradient of `loss`."""
        self._sgd.zero_grad()
        loss.backward()
        self.apply(lr)

    def apply(self, lr: float | Tensor) -> None:
        """One step with the gradients that the network's parameters hold; a rate may be a tensor."""
        for group in self._sgd.param_groups:
            group["lr"] = lr
        self._sgd.step()

    def momentum(self) -> dict[str, Tensor]:
        """By the parameters' names; empty before the first step and without momentum."""
        found = {name: self._sgd.state[p].get("momentum_buffer") for name, p in self._network.named_parameters()}
        return {name: buffer for name, buffer in found.items() if buffer is not None}

    def load_momentum(self, momentum: Mapping[str, Tensor]) -> None:
        for name, parameter in self._network.named_parameters():
            buffer = momentum.get(name)
            self._sgd.state[parameter]["momentum_buffer"] = None if buffer is None else buffer.to(parameter.device)
