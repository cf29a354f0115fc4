"""Whether an encoder still tells images apart: the share of its features that are dead."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from co2l.data.benchmarks import Benchmark, standardise
from co2l.data.examples import Examples
from co2l.learning.encoders import Encoder
from co2l.learning.probe import ENCODING_BATCH

IMAGES = 500  # of the task, evenly spaced; a feature that answers one image in a hundred escapes them 1 time in 150
COLLAPSED = 75.0  # percent; ordinary runs stay below 60, even on two classes of digits


@torch.no_grad()
def dead_features(encoder: Encoder, examples: Examples, benchmark: Benchmark) -> float:
    """Percent of the features that have the same value for all images, as a ReLU that no image opens."""
    rows = torch.linspace(0, len(examples) - 1, min(len(examples), IMAGES)).long().to(examples.device)
    was_training = encoder.training
    encoder.eval()
    parts = [standardise(part.images, benchmark) for part in examples.gather(rows).split(ENCODING_BATCH)]
    features = torch.cat([encoder(part) for part in parts])
    encoder.train(was_training)
    return 100 * float((features.amax(0) == features.amin(0)).double().mean())


def collapse(dead: Sequence[float | None]) -> str | None:
    """A line for a run whose features died, from their share after each task."""
    for t, share in enumerate(dead):
        if share is not None and share >= COLLAPSED:
            return (
                f"{share:.0f}% of the encoder's features are dead after task {t + 1}: the representation collapsed;"
                " lower eta, or set unit_sphere=true"
            )
    return None
