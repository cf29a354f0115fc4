"""FDR (Benjamin et al. 2019): after each step a second one, back to the answers the network gave when tasks ended."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data.benchmarks import Benchmark
from co2l.data.randomness import stream
from co2l.data.streams import Samples
from co2l.learning.config import Later, Settings
from co2l.learning.methods.rehearsal import Rehearsal, ReplaySettings


class FDRSettings(ReplaySettings):
    alpha: Later[float] = Field(ge=0, description="weight α of the distance to past answers")


def function_distance(logits: Tensor, stored: Tensor) -> Tensor:
    """‖softmax(f(x)) − softmax(stored)‖₂, averaged over samples."""
    distances: Tensor = torch.linalg.vector_norm(logits.softmax(1) - stored.softmax(1), dim=1)
    return distances.mean()


class FDR(Rehearsal):
    name = "fdr"
    settings_type: ClassVar[type[Settings]] = FDRSettings
    settings: FDRSettings
    stores_logits = True

    @classmethod
    def shares(cls, benchmark: Benchmark) -> tuple[int, str]:
        return benchmark.tasks, "tasks"

    def learn(self, now: Samples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        losses = {"ce": F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)}
        self.optimiser.descend(losses["ce"], lr)
        if len(self.memory):
            past = self.recall(self.settings.minibatch_size, generator)
            losses["distance"] = function_distance(self.network(past.x), past.logits)
            self.optimiser.descend(self.settings.alpha * losses["distance"], lr)
        return losses

    def end_task(self, t: int, task: Samples) -> None:
        """M/t samples of each task, and what the network now answers to the newest ones."""
        later = torch.zeros((), device=self.device).expand(len(task), self.benchmark.num_classes)
        generator = stream(self.seed, "task", t, "buffer")
        self.memory = self.memory.take(task, t, self.settings.buffer_size, "task_balanced", generator, logits=later)
        assert self.memory.logits is not None
        new = (self.memory.tasks == t).nonzero().squeeze(1)
        views = stream(self.seed, "task", t, "answers", device=self.device)
        self.network.eval()
        with torch.no_grad():
            for rows in new.split(self.settings.batch_size):
                self.memory.logits[rows] = self.network(self.view(self.memory.images[rows], views))
