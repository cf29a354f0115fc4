"""What a run exports: its classifier, for raw images, and features of some examples, for figures."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples, concatenate
from co2l.data.randomness import generator_for
from co2l.data.streams import TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.methods.base import Method
from co2l.learning.metrics import BATCH

KINDS = ("classifier", "features")
EXAMPLES = 2000  # at most so many training examples, and as many of the buffer


class ImageClassifier(nn.Module):
    """Raw images, bytes [N, C, H, W], to probabilities [N, classes], in the dataset's order of classes."""

    mean: Tensor
    std: Tensor
    columns: Tensor | None

    def __init__(self, benchmark: Benchmark, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier
        self.register_buffer("mean", torch.tensor(benchmark.mean)[:, None, None])
        self.register_buffer("std", torch.tensor(benchmark.std)[:, None, None])
        self.register_buffer(
            "columns", torch.tensor(benchmark.class_order).argsort() if benchmark.class_order else None
        )

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.classifier((images.float() / 255 - self.mean) / self.std).softmax(1)
        return found if self.columns is None else found[:, self.columns]


def rebuild(method: type[Method], config: RunConfig, weights: Mapping[str, Tensor]) -> nn.Module:
    """The classifier of a run from its exported weights."""
    classifier = method.blank_classifier(config.settings, config.spec)
    classifier.load_state_dict(weights)
    # as it was trained: another layout adds up in another order
    classifier.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's types
    return ImageClassifier(config.spec, classifier).eval()


@torch.no_grad()
def features(
    encoder: nn.Module, tasks: TaskStream, buffered: Examples | None, *, seed: int, device: torch.device
) -> dict[str, Tensor]:
    """Encoder outputs of training examples of all tasks, drawn evenly, then of those in the buffer, which are marked.

    Figure 5 of the paper shows both. The rows of `features`, `labels`, `tasks` and `buffered` belong together.
    """
    parts = []
    for t in range(len(tasks)):
        examples = tasks.revisit(t)
        drawn = torch.randperm(len(examples), generator=generator_for(seed, "features", t))[: EXAMPLES // len(tasks)]
        parts.append(examples.gather(drawn))
    marks = [False] * sum(map(len, parts))
    if buffered is not None:
        drawn = torch.randperm(len(buffered), generator=generator_for(seed, "features"))[:EXAMPLES]
        parts.append(buffered.to("cpu").gather(drawn))
        marks += [True] * len(drawn)
    shown = concatenate(parts)
    encoded = [encoder(standardise(some.images.to(device), tasks.benchmark)).cpu() for some in shown.split(BATCH)]
    return {
        "features": torch.cat(encoded),
        "labels": tasks.benchmark.original(shown.labels),
        "tasks": shown.tasks,
        "buffered": torch.tensor(marks),
    }
