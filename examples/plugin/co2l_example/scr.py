"""SCR (Mai et al., CVPR workshops 2021): a supervised contrastive loss on new and replayed examples together.

Images are classified by the nearest mean of the buffer's embeddings, so no classifier favours the last classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples
from co2l.learning.config import Every, Settings
from co2l.learning.encoders import Projector
from co2l.learning.losses import similarity, supcon
from co2l.learning.methods.base import encoder_for
from co2l.learning.methods.classifier import Network
from co2l.learning.methods.icarl import NearestMean
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal
from co2l.learning.probe import ENCODING_BATCH


class SCRSettings(OnlineSettings):
    tau: Every[float] = Field(0.07, gt=0, description="temperature τ of the contrastive loss, above 0")
    minibatch_size: Every[int] = Field(100, ge=1, description="buffered examples replayed per step")


class Contrastive(Network):
    """A projector where other networks have a linear head."""

    def __init__(self, settings: Settings, benchmark: Benchmark) -> None:
        super().__init__(encoder_for(settings, benchmark), 1)
        self[1] = Projector(self.encoder)


class SCR(Rehearsal):
    name = "scr"
    settings_type: ClassVar[type[Settings]] = SCRSettings
    settings: SCRSettings

    def _network(self) -> Contrastive:
        return Contrastive(self.settings, self.benchmark)

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        past = self.recall(self.settings.minibatch_size, generator)
        images, labels = torch.cat([now.images, past.images]), torch.cat([now.labels, past.labels])
        views = torch.cat([standardise(images, self.benchmark), self.view(images, generator)])
        z = F.normalize(self.network(views))
        loss = supcon(similarity(z), labels.repeat(2), self.settings.tau)
        self.optimiser.descend(loss, lr)
        self.memory = buffer.add(self.memory, now, self.settings.buffer_size, "reservoir", generator)
        return {"supcon": loss}

    @torch.no_grad()
    def classifier(self, t: int, task: Examples, probe: str, revisited: Sequence[Examples] = ()) -> nn.Sequential:
        del t, task, probe, revisited  # all it needs is in the buffer
        self.network.eval()
        encoder, parts = self.network.encoder, self.memory.split(ENCODING_BATCH)
        features = torch.cat([F.normalize(encoder(standardise(part.images, self.benchmark))) for part in parts])
        nearest = NearestMean(features.shape[1], self.benchmark.num_classes).to(self.device)
        for label in self.memory.labels.unique():
            nearest.learn(int(label), features[self.memory.labels == label])
        return nn.Sequential(encoder, nearest).eval()

    @classmethod
    def blank_classifier(cls, settings: SCRSettings, benchmark: Benchmark) -> nn.Sequential:
        encoder = encoder_for(settings, benchmark)
        return nn.Sequential(encoder, NearestMean(encoder.dim, benchmark.num_classes))
