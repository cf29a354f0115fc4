"""How long a training step will take on a card that is not here: a roofline over the step's own kernels.

A kernel takes as long as its FLOPs or its bytes do, whichever is longer, at a fixed share of what the card's data sheet
says; a step takes as long as its kernels, or as the host needs to launch them. The shares below are not fitted to any
card: they are what well-written kernels of these shapes reach. On a CPU whose rates are measured first, the model is
1.3 to 2.5 times too slow (benchmarks/forecast.py); use `--measure` as soon as there is a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from co2l.errors import Co2lError
from co2l.learning.cards import Card, Precision
from co2l.learning.config import RunConfig
from co2l.learning.counting import Kernel
from co2l.learning.footprint import Footprint, footprint
from co2l.search.space.estimate import Timed, Timing

# Of the peak: cuDNN's 3 × 3 convolutions of 64 to 512 channels. The faster the units, the less they are fed.
COMPUTE: dict[Precision, float] = {"fp32": 0.60, "tf32": 0.40, "bf16": 0.35}
# Of the peak: batch norm, ReLU and additions, which read and write every element once.
BANDWIDTH = 0.75
# Seconds of a kernel that does next to nothing, and of the host to launch one from Python.
SMALLEST, LAUNCH = 2e-6, 8e-6
ASSUMED = (
    f"a roofline: every kernel at {BANDWIDTH:.0%} of the card's bandwidth or "
    f"{', '.join(f'{share:.0%} ({name})' for name, share in COMPUTE.items())} of its FLOP/s, and at least "
    f"{LAUNCH * 1e6:g} µs to launch. No line of it was measured on a card: it may be wrong by a factor of 2 or more"
)


def seconds(kernels: Iterable[Kernel], card: Card, precision: Precision, share: float = 1.0) -> float:
    """One step on a share of the card: others use it for the rest of the time, but the host is the trial's own."""
    flops, bandwidth = card.flops(precision) * COMPUTE[precision], card.bandwidth * 1e9 * BANDWIDTH
    each = [max(kernel.flops / flops, kernel.moved / bandwidth, SMALLEST) for kernel in kernels]
    return max(sum(each) / min(share, 1.0), len(each) * LAUNCH)


def forecast(card: Card, gpus: float) -> Timing:
    """The time of steps on a card, of which a trial has `gpus` or, if it asks for none, all."""

    def timed(config: RunConfig, work: dict[str, Any]) -> Timed:
        if not config.spec.examples:
            raise Co2lError(
                "its number of training examples is not known", where=config.benchmark, fix="set Benchmark.examples"
            )
        first, later = footprint(config, 0), footprint(config, 1)
        precision = config.settings.precision

        def per_example(step: Footprint) -> float:
            return seconds(step.kernels, card, precision, gpus or 1.0) / step.batch

        return Timed(
            settings={"batch_size": config.settings.batch_size, **work},
            batch=first.batch,
            first=per_example(first),
            later=per_example(later),
            sizes=(first.examples, later.examples),
            replays=later.drawn > later.examples,
        )

    return timed
