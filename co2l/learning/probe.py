"""Linear evaluation: a classifier on the frozen encoder, trained on the last task and the buffer (Section 5.1).

The paper's probe augments every batch; the fast one encodes each example once, without augmentation, and serves the
curves while a run is under way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data.augmentation import augment
from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples, batches
from co2l.data.randomness import generator_for
from co2l.learning.encoders import Encoder, initialised

DECAY_AFTER = (0.60, 0.75, 0.90)  # of the epochs: 60, 75 and 90 of the paper's 100
DECAY = 0.2
ENCODING_BATCH = 250  # encoding must not need more memory than a training step


@dataclass(frozen=True)
class ProbeRecipe:
    epochs: int
    lr: float
    batch_size: int
    augmented: bool
    per_domain: bool = True  # balance the classes of every domain, not only the labels they share
    momentum: float = 0.9

    def lr_at(self, epoch: int) -> float:
        """The rate of an epoch (1-based)."""
        return self.lr * DECAY ** sum(epoch > share * self.epochs for share in DECAY_AFTER)


class BalancedDraws:
    """Draws with replacement: first a class, uniformly, then one of its examples, uniformly."""

    def __init__(self, labels: Tensor) -> None:
        self.by_class = labels.argsort(stable=True)
        self.counts = torch.unique(labels, return_counts=True)[1]
        self.first = self.counts.cumsum(0) - self.counts

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        drawn = torch.randint(len(self.counts), (n,), generator=generator)
        within = torch.rand(n, generator=generator, dtype=torch.float64) * self.counts[drawn]
        return self.by_class[self.first[drawn] + within.long()]


def train_probe(
    encoder: Encoder, benchmark: Benchmark, data: Examples, current: int, recipe: ProbeRecipe, *, seed: int, t: int
) -> nn.Sequential:
    """The classifier `linear ∘ encoder` for standardised images; both are left in evaluation mode.

    The first `current` examples of `data` are those of task `t`.
    """
    path = ("task", t, "probe")
    device = data.device
    encoder.eval()
    linear = initialised(lambda: nn.Linear(encoder.dim, benchmark.num_classes), seed, *path).to(device)
    optimiser = torch.optim.SGD(linear.parameters(), lr=recipe.lr, momentum=recipe.momentum)
    classes = data.labels + data.tasks * benchmark.num_classes if recipe.per_domain else data.labels
    balanced = BalancedDraws(classes.cpu())
    encoded = None if recipe.augmented else _encode(encoder, benchmark, data)
    for epoch in range(1, recipe.epochs + 1):
        for group in optimiser.param_groups:
            group["lr"] = recipe.lr_at(epoch)
        drawn = balanced.draw(len(data), generator_for(seed, *path, "epoch", epoch))
        views = generator_for(seed, *path, "epoch", epoch, "views", device=device)
        if encoded is None:
            order = batches(drawn, recipe.batch_size, current, device)
        else:
            order = list(drawn.to(device).split(recipe.batch_size))
        for batch in order:
            if encoded is None:
                with torch.no_grad():
                    x = augment(data.images_at(batch), benchmark.augmentation, views)
                    h = encoder(standardise(x, benchmark))
            else:
                h = encoded[batch]
            loss = F.cross_entropy(linear(h), data.labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return nn.Sequential(encoder, linear).eval()


@torch.no_grad()
def _encode(encoder: Encoder, benchmark: Benchmark, data: Examples) -> Tensor:
    """The features of every example, in order."""
    return torch.cat([encoder(standardise(part.images, benchmark)) for part in data.split(ENCODING_BATCH)])
