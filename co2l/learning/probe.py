"""Linear evaluation: a classifier on the frozen encoder, trained on the last task and the buffer (Section 5.1).

The paper's probe augments every batch; the fast one encodes each example once, without augmentation, and serves the
curves while a run is under way; ridge solves for the classifier instead of descending to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data.augmentation import augment
from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples, batches, concatenate
from co2l.data.randomness import generator_for
from co2l.data.streams import rotate
from co2l.errors import Co2lError
from co2l.learning.config import Keyed, Probe, Settings
from co2l.learning.encoders import Encoder, initialised
from co2l.learning.optimiser import Descent

DECAY_AFTER = (0.60, 0.75, 0.90)  # of the epochs: 60, 75 and 90 of the paper's 100
DECAY = 0.2
ENCODING_BATCH = 250  # encoding must not need more memory than a training step
ROTATED_COPIES = 8  # of each buffered example, if there are any

Balance = Literal["domain_class", "domain", "label"]
Kind = Literal["paper", "fast", "ridge"]


class ProbeSettings(Settings):
    """Of methods that learn a representation and need a classifier on it."""

    matrix_probe: Probe[Literal["fast", "paper", "none"]] = Field(
        "fast", description="how the accuracy matrix is measured after every task"
    )
    probe: Probe[Kind] = Field("paper", description="linear evaluation behind the result")
    probe_epochs: Probe[int] = Field(100, ge=1, description="epochs of the linear evaluation")
    probe_lr: Probe[float] = Field(1.0, gt=0, description="learning rate of the linear evaluation")
    probe_balance: Probe[Balance] = Field(
        "domain_class", description="what the linear evaluation draws evenly; they differ on rotated benchmarks"
    )
    probe_views: Annotated[Probe[Literal["all", "buffered"]], Keyed.IF_CHANGED] = Field(
        "all", description="what probe=paper augments: all examples, or only buffered ones (R-MNIST code)"
    )
    probe_data: Probe[Literal["buffer", "seen", "all"]] = Field(
        "buffer",
        description="the linear evaluation sees the buffer, or all examples of the tasks seen or of all",
    )
    probe_batch_size: Probe[int] = Field(256, ge=1, description="batch size of the linear evaluation")
    probe_weight_decay: Annotated[Probe[float], Keyed.IF_CHANGED] = Field(
        0.0, ge=0, description="weight decay of the linear evaluation; the penalty of probe=ridge"
    )
    probe_rotation: Annotated[Probe[float], Keyed.IF_CHANGED] = Field(
        0.0, ge=0, le=180, description="add copies of buffered examples, rotated by up to this many degrees; 0: none"
    )


@dataclass(frozen=True)
class ProbeRecipe:
    kind: Kind
    epochs: int
    lr: float
    batch_size: int
    balance: Balance = "domain_class"
    views: Literal["all", "buffered"] = "all"
    weight_decay: float = 0.0
    rotation: float = 0.0
    momentum: float = 0.9

    def lr_at(self, epoch: int) -> float:
        """The rate of an epoch (1-based)."""
        return self.lr * DECAY ** sum(epoch > share * self.epochs for share in DECAY_AFTER)


def recipe_of(settings: ProbeSettings, kind: Any) -> ProbeRecipe:
    return ProbeRecipe(
        kind=kind,
        epochs=settings.probe_epochs,
        lr=settings.probe_lr,
        batch_size=settings.probe_batch_size,
        balance=settings.probe_balance,
        views=settings.probe_views,
        weight_decay=settings.probe_weight_decay,
        rotation=settings.probe_rotation,
    )


def check_probe(settings: ProbeSettings, *, where: str) -> None:
    if settings.probe == "ridge" and settings.probe_weight_decay == 0:
        fix = "set probe_weight_decay, such as 0.01"
        raise Co2lError("probe=ridge needs a penalty above 0", where=where, fix=fix)


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
    encoder.eval()
    linear = initialised(lambda: nn.Linear(encoder.dim, benchmark.num_classes), seed, *path).to(data.device)
    if recipe.rotation:
        data = _with_rotated(data, current, recipe.rotation, benchmark, generator_for(seed, *path, "rotation"))
    if recipe.kind == "ridge":
        _solve(linear, _encode(encoder, benchmark, data), data, recipe)
    else:
        _descend(linear, encoder, benchmark, data, current, recipe, seed=seed, path=path)
    return nn.Sequential(encoder, linear).eval()


def _descend(
    linear: nn.Linear,
    encoder: Encoder,
    benchmark: Benchmark,
    data: Examples,
    current: int,
    recipe: ProbeRecipe,
    *,
    seed: int,
    path: tuple[str | int, ...],
) -> None:
    device = data.device
    descent = Descent(linear.parameters(), momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    balanced = BalancedDraws(balanced_groups(data, recipe.balance).cpu())
    encoded = None if recipe.kind == "paper" else _encode(encoder, benchmark, data)
    for epoch in range(1, recipe.epochs + 1):
        drawn = balanced.draw(len(data), generator_for(seed, *path, "epoch", epoch))
        views = generator_for(seed, *path, "epoch", epoch, "views", device=device)
        if encoded is None:
            order = batches(drawn, recipe.batch_size, current, device)
        else:
            order = list(drawn.to(device).split(recipe.batch_size))
        for batch in order:
            if encoded is None:
                with torch.no_grad():
                    images = data.images_at(batch)
                    x = augment(images, benchmark.augmentation, views)
                    if recipe.views == "buffered":
                        x = torch.where((batch < current)[:, None, None, None], images.to(x.dtype) / 255, x)
                    h = encoder(standardise(x, benchmark))
            else:
                h = encoded[batch]
            loss = F.cross_entropy(linear(h), data.labels[batch])
            descent.zero_grad()
            loss.backward()
            descent.step(recipe.lr_at(epoch))


def balanced_groups(data: Examples, balance: Balance) -> Tensor:
    """The group of each example, all of which are drawn equally often."""
    if balance == "label":
        return data.labels
    if balance == "domain":
        return data.tasks
    return data.tasks * (1 + data.labels.max()) + data.labels


@torch.no_grad()
def _solve(linear: nn.Linear, h: Tensor, data: Examples, recipe: ProbeRecipe) -> None:
    """Least squares to one-hot targets, every group with the same weight in all, and a penalty on the weights."""
    _, group, counts = balanced_groups(data, recipe.balance).unique(return_inverse=True, return_counts=True)
    weight = (1 / counts.double() / len(counts))[group]
    targets = F.one_hot(data.labels, linear.out_features).double()
    centre, level = weight @ h.double(), weight @ targets  # the intercept is not penalised
    x, y = h.double() - centre, targets - level
    gram = (x * weight[:, None]).T @ x + recipe.weight_decay * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    solved = torch.linalg.solve(gram, (x * weight[:, None]).T @ y)
    linear.weight.copy_(solved.T)
    linear.bias.copy_(level - centre @ solved)


def _with_rotated(
    data: Examples, current: int, most: float, benchmark: Benchmark, generator: torch.Generator
) -> Examples:
    """The data, and copies of all but the first `current` examples, rotated by random angles."""
    buffered = data.gather(torch.arange(current, len(data), device=data.device))
    copies = [data]
    for angle in most * (2 * torch.rand(ROTATED_COPIES, generator=generator, dtype=torch.float64) - 1):
        images = rotate(buffered.images.cpu(), float(angle), benchmark.rotation).to(data.device)
        copies.append(Examples(images, buffered.labels, buffered.tasks))
    return concatenate(copies)


@torch.no_grad()
def _encode(encoder: Encoder, benchmark: Benchmark, data: Examples) -> Tensor:
    """The features of every example, in order."""
    return torch.cat([encoder(standardise(part.images, benchmark)) for part in data.split(ENCODING_BATCH)])
