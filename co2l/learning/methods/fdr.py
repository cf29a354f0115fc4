"""FDR (Benjamin et al. 2019): after each step a second one, back to the answers the network gave when tasks ended."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.config import Later, Settings
from co2l.learning.methods.rehearsal import Rehearsal, ReplaySettings


class FDRSettings(ReplaySettings):
    alpha: Later[float] = Field(1.0, ge=0, description="weight α of the distance to past answers")


def function_distance(logits: Tensor, stored: Tensor) -> Tensor:
    """‖softmax(f(x)) − softmax(stored)‖₂, averaged over examples."""
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

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        losses = {"ce": F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)}
        self.optimiser.descend(losses["ce"], lr)
        if len(self.memory):
            past = self.recall(self.settings.minibatch_size, generator)
            assert past.logits is not None
            losses["distance"] = function_distance(self.network(self.view(past.images, generator)), past.logits)
            self.optimiser.descend(self.settings.alpha * losses["distance"], lr)
        return losses

    def end_task(self, t: int, task: Examples) -> None:
        """M/t examples of each task, and what the network now answers to the newest ones."""
        unanswered = torch.zeros((), device=self.device).expand(len(task), self.benchmark.num_classes)
        generator, size = generator_for(self.seed, "task", t, "buffer"), self.settings.buffer_size
        self.memory = buffer.add(self.memory, replace(task, logits=unanswered), size, "task_balanced", generator)
        assert self.memory.logits is not None
        new = (self.memory.tasks == t).nonzero().squeeze(1)
        views = generator_for(self.seed, "task", t, "answers", device=self.device)
        self.network.eval()
        with torch.no_grad():
            for rows in new.split(self.settings.batch_size):
                self.memory.logits[rows] = self.network(self.view(self.memory.images[rows], views))
