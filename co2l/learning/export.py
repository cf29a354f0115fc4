"""What is left of a run for others to use: its classifier, for raw images, and features of some samples to look at."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from co2l.data.benchmarks import Benchmark, normalise
from co2l.data.buffer import Batch
from co2l.data.randomness import stream
from co2l.data.streams import TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.methods.base import Method
from co2l.learning.metrics import BATCH

KINDS = ("classifier", "features")
SAMPLES = 2000  # at most so many of the training samples, as many again of the buffer's


class ImageClassifier(nn.Module):
    """Raw images, bytes [N, C, H, W], to probabilities [N, classes]."""

    mean: Tensor
    std: Tensor

    def __init__(self, benchmark: Benchmark, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier
        self.register_buffer("mean", torch.tensor(benchmark.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(benchmark.std)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier((images.float() / 255 - self.mean) / self.std).softmax(1)  # type: ignore[no-any-return]


def rebuild(method: type[Method], config: RunConfig, benchmark: Benchmark, weights: Mapping[str, Tensor]) -> nn.Module:
    """The classifier of a run from its exported weights."""
    classifier = method.blank_classifier(config.settings, benchmark)
    classifier.load_state_dict(weights)
    # as it was trained: another layout adds up in another order
    classifier.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's types
    return ImageClassifier(benchmark, classifier).eval()


@torch.no_grad()
def features(
    encoder: nn.Module, tasks: TaskStream, buffered: Batch | None, *, seed: int, device: torch.device
) -> dict[str, Tensor]:
    """Encoder outputs of training samples of all tasks, drawn evenly, then of those in the buffer, which are marked.

    Figure 5 of the paper shows both. The rows of `features`, `labels`, `tasks` and `buffered` belong together.
    """
    parts: list[tuple[Batch, bool]] = []
    for t in range(len(tasks)):
        samples = tasks.revisit(t)
        drawn = torch.randperm(len(samples), generator=stream(seed, "features", t))[: SAMPLES // len(tasks)]
        parts.append((Batch(samples.gather(drawn), samples.labels[drawn], torch.full_like(drawn, t)), False))
    if buffered is not None:
        drawn = torch.randperm(len(buffered.labels), generator=stream(seed, "features"))[:SAMPLES]
        parts.append((Batch(*(column.cpu()[drawn] for column in buffered)), True))
    images = torch.cat([batch.images for batch, _ in parts])
    encoded = [encoder(normalise(some.to(device).float() / 255, tasks.benchmark)).cpu() for some in images.split(BATCH)]
    return {
        "features": torch.cat(encoded),
        "labels": torch.cat([batch.labels for batch, _ in parts]),
        "tasks": torch.cat([batch.tasks for batch, _ in parts]),
        "buffered": torch.cat([torch.full_like(batch.labels, mark, dtype=torch.bool) for batch, mark in parts]),
    }
