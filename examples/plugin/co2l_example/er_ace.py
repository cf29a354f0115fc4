"""ER-ACE (Caccia et al., ICLR 2022): new examples compete with the classes of their batch only, so old ones stay put.

In ER the first batches of a task push the features of old classes away. Here the cross-entropy of the current batch is
over the classes in it, that of the replayed batch over all classes seen so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark
from co2l.data.examples import Examples
from co2l.learning.config import Settings
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal


class ERACE(Rehearsal):
    name = "er_ace"
    settings_type: ClassVar[type[Settings]] = OnlineSettings
    settings: OnlineSettings

    def __init__(self, settings: Any, benchmark: Benchmark, seed: int, device: torch.device) -> None:
        super().__init__(settings, benchmark, seed, device)
        self.seen = torch.zeros(benchmark.num_classes, dtype=torch.bool, device=device)

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        present = torch.zeros_like(self.seen).index_fill(0, now.labels, True)
        self.seen = self.seen | present
        loss = among(self.network(self.view(now.images, generator)), now.labels, present)
        losses = {"ce": loss}
        if len(self.memory):
            past = self.recall(self.settings.minibatch_size, generator)
            losses["replay"] = among(self.network(self.view(past.images, generator)), past.labels, self.seen)
            loss = loss + losses["replay"]
        self.optimiser.descend(loss, lr)
        self.memory = buffer.add(self.memory, now, self.settings.buffer_size, "reservoir", generator)
        return losses

    def state(self) -> dict[str, Any]:
        return {**super().state(), "seen": self.seen}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.seen = state["seen"].to(self.device)


def among(logits: Tensor, labels: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy where only `classes` (a bool for each) take part in the softmax."""
    return F.cross_entropy(logits.masked_fill(~classes, -torch.inf), labels)
