"""GSS, greedy (Aljundi et al. 2019): the buffer prefers examples whose gradients point elsewhere than those it has.

An example's score is its gradient's largest cosine to the gradients of some buffered examples, plus 1. A full buffer is
only opened to a batch whose own score is below 1. Then each of its examples challenges one slot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import standardise
from co2l.data.examples import Examples
from co2l.learning.config import Every, Settings
from co2l.learning.gradients import ExampleGradients
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal

FIRST_SCORE = 0.1  # of the examples that meet an empty buffer, as in the DER release
EPS = 1e-12  # a gradient of length 0 points nowhere, and has cosine 0 to all others
LEAST_SCORE = 1e-6  # an exactly opposite gradient scores 0, and a slot must have some chance to be challenged


class GSSSettings(OnlineSettings):
    gmbs: Every[int] = Field(32, ge=1, description="buffered examples whose gradients a batch is compared with")
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
        # torch.multinomial to the bit, which waits for the device to check its probabilities
        i = (now / torch.empty_like(now).exponential_(generator=generator)).argmax(keepdim=True)
        takes = luck[j] < now[i] / (now[i] + candidates[j])
        rows[i] = torch.where(takes, len(scores) + j, rows[i])
    return rows


def similarity(batch: ExampleGradients, known: ExampleGradients) -> tuple[float, Tensor]:
    """The score of a batch, whose gradient is the mean of its examples', and the score of each example."""
    products, length = batch.products(known), batch.products(batch).mean().clamp_min(0).sqrt()
    together = (products.mean(0) / (length * known.norms).clamp_min(EPS)).max() + 1
    return float(together), (products / torch.outer(batch.norms, known.norms).clamp_min(EPS)).amax(dim=1) + 1


class GSS(Rehearsal):
    name = "gss"
    settings_type: ClassVar[type[Settings]] = GSSSettings
    settings: GSSSettings

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        x = self.view(now.images, generator)
        for _ in range(self.settings.nb):
            past = self.recall(self.settings.minibatch_size, generator)
            logits = self.network(torch.cat([x, self.view(past.images, generator)]))
            loss = F.cross_entropy(logits, torch.cat([now.labels, past.labels]))
            self.optimiser.descend(loss, lr)
        self.select(now, generator)
        return {"ce": loss}

    def select(self, now: Examples, generator: torch.Generator) -> None:
        """Fill the buffer, or let the batch challenge what is in it."""
        known = self.memory.gather(buffer.draw(self.memory, self.settings.gmbs, generator))
        score, scores = FIRST_SCORE, None
        if len(known):
            score, scores = similarity(self._gradients(now), self._gradients(known))
        free = max(self.settings.buffer_size - len(self.memory), 0)
        fitting, challengers = torch.arange(len(now), device=self.device).tensor_split([free])
        if len(fitting):
            self._admit(
                now.gather(fitting), torch.full((len(fitting),), score, dtype=torch.float64, device=self.device), None
            )
        if len(challengers) and score < 1 and scores is not None:
            self._admit(now.gather(challengers), scores[free:], generator)

    def _gradients(self, examples: Examples) -> ExampleGradients:
        return ExampleGradients.of(self.network, standardise(examples.images, self.benchmark), examples.labels)

    def _admit(self, new: Examples, scores: Tensor, generator: torch.Generator | None) -> None:
        """Take in `new` with their scores: all of them, or those that win their slot."""
        held = buffer.priorities_of(self.memory)
        candidates = scores.to(held).clamp_min(LEAST_SCORE)
        if generator is None:
            rows = torch.arange(len(held) + len(new), device=self.device)
        else:
            rows = challenge(held, candidates, generator)
        self.memory = buffer.pick(self.memory, replace(new, priorities=candidates), rows)
