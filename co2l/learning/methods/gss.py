"""GSS, greedy (Aljundi et al. 2019): the buffer prefers samples whose gradients point elsewhere than those it has.

A sample's score is its gradient's largest cosine to the gradients of some buffered samples, plus 1. A full buffer is
only opened to a batch whose own score is below 1. Then each of its samples challenges one slot.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data.benchmarks import normalise
from co2l.data.streams import Samples
from co2l.learning.config import Every, Settings
from co2l.learning.gradients import SampleGradients
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal

FIRST_SCORE = 0.1  # of the samples that meet an empty buffer, as in the DER release
EPS = 1e-12  # a gradient of length 0 points nowhere, and has cosine 0 to all others
LEAST_SCORE = 1e-6  # an exactly opposite gradient scores 0, and a slot must have some chance to be challenged


class GSSSettings(OnlineSettings):
    gmbs: Every[int] = Field(ge=1, description="buffered samples whose gradients a batch is compared with")
    nb: Every[int] = Field(1, ge=1, description="steps per batch, each with another replayed minibatch")


def challenge(scores: Tensor, candidates: Tensor, generator: torch.Generator) -> Tensor:
    """Rows of the new buffer among its m slots followed by the candidates, whose scores come one after the other.

    A candidate with score c meets slot i with probability s_i/Σs, and takes it with probability s_i/(s_i + c).
    """
    everyone = torch.cat([scores, candidates])
    rows = torch.arange(len(scores), device=scores.device)
    luck = torch.rand(len(candidates), generator=generator, dtype=scores.dtype, device=scores.device)
    for j in range(len(candidates)):
        now = everyone[rows]
        i = torch.multinomial(now, 1, generator=generator)
        takes = luck[j] < now[i] / (now[i] + candidates[j])
        rows[i] = torch.where(takes, len(scores) + j, rows[i])
    return rows


def similarity(batch: SampleGradients, known: SampleGradients) -> tuple[float, Tensor]:
    """The score of a batch, whose gradient is the mean of its samples', and the score of each sample."""
    products, length = batch.products(known), batch.products(batch).mean().clamp_min(0).sqrt()
    together = (products.mean(0) / (length * known.norms).clamp_min(EPS)).max() + 1
    return float(together), (products / torch.outer(batch.norms, known.norms).clamp_min(EPS)).amax(dim=1) + 1


class GSS(Rehearsal):
    name = "gss"
    settings_type: ClassVar[type[Settings]] = GSSSettings
    settings: GSSSettings

    def learn(self, now: Samples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        x = self.view(now.images, generator)
        for _ in range(self.settings.nb):
            past = self.recall(self.settings.minibatch_size, generator)
            loss = F.cross_entropy(self.network(torch.cat([x, past.x])), torch.cat([now.labels, past.labels]))
            self.optimiser.descend(loss, lr)
        self.select(now, generator)
        return {"ce": loss}

    def select(self, now: Samples, generator: torch.Generator) -> None:
        """Fill the buffer, or let the batch challenge what is in it."""
        compared = self.memory.draw(self.settings.gmbs, generator)
        score, scores = FIRST_SCORE, None
        if len(compared):
            images = normalise(self.memory.images[compared], self.benchmark)
            known = SampleGradients.of(self.network, images, self.memory.labels[compared])
            score, scores = similarity(SampleGradients.of(self.network, self._plain(now), now.labels), known)
        free = max(self.settings.buffer_size - len(self.memory), 0)
        if free:
            self._replace(_part(now, slice(free)), torch.full((min(free, len(now)),), score, dtype=torch.float64), None)
        challengers = _part(now, slice(free, None))
        if len(challengers) and score < 1 and scores is not None:
            self._replace(challengers, scores[free:], generator)

    def _plain(self, samples: Samples) -> Tensor:
        return normalise(samples.gather(torch.arange(len(samples), device=self.device)), self.benchmark)

    def _replace(self, new: Samples, scores: Tensor, generator: torch.Generator | None) -> None:
        """Take in `new` with their scores: all of them, or those that win their slot."""
        candidates = scores.to(self.memory.priorities).clamp_min(LEAST_SCORE)
        everyone = torch.cat([self.memory.priorities, candidates])
        if generator is None:
            rows = torch.arange(len(everyone), device=self.device)
        else:
            rows = challenge(self.memory.priorities, candidates, generator)
        self.memory = self.memory.choose(rows, new, self.t, everyone)


def _part(samples: Samples, part: slice) -> Samples:
    return Samples(samples.images, samples.rows[part], samples.labels[part])
