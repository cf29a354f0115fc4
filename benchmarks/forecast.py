"""How well the roofline of `--plan --on` fits where it can be tested: on this machine, whose rates are measured first.

    python benchmarks/forecast.py [--rounds 3]

One large convolution gives the machine's FLOP/s and one large addition its bytes/s; both take the part of a card's data
sheet. Then steps of Co²L's second task are forecast from shapes alone and timed. This tests the form of the model, not
the shares of a card's peak that it assumes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from co2l.cluster.steps import second_task, whole_steps
from co2l.learning.cards import Card
from co2l.learning.footprint import footprint
from co2l.learning.methods import configure
from co2l.search.space.forecast import BANDWIDTH, COMPUTE, seconds

CASES = [
    ("seq_cifar10", 16, 16), ("seq_cifar10", 32, 32), ("seq_cifar10", 16, 64),
    ("seq_tiny_imagenet", 8, 32), ("r_mnist", 128, 64), ("r_mnist", 512, 64),
]  # fmt: skip


def fastest(work: Callable[[], object], rounds: int) -> float:
    work()
    taken = []
    for _ in range(2 * rounds):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def this_machine(rounds: int) -> Card:
    images = torch.rand(64, 64, 32, 32).contiguous(memory_format=torch.channels_last)
    filters = torch.rand(64, 64, 3, 3).contiguous(memory_format=torch.channels_last)
    flops = 2 * 64 * 64 * 64 * 9 * 32 * 32 / fastest(lambda: F.conv2d(images, filters, padding=1), rounds)
    a, b, c = torch.rand(3, 2**24)
    moved = 3 * a.nbytes / fastest(lambda: torch.add(a, b, out=c), rounds)
    print(f"{flops / 1e9:.0f} GFLOP/s, {moved / 1e9:.1f} GB/s, {torch.get_num_threads()} threads")
    speed = flops / COMPUTE["fp32"] / 1e12
    return Card("here", "this machine", 0, speed, speed, speed, moved / BANDWIDTH / 1e9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    here = this_machine(rounds)
    ratios = []
    for name, batch_size, width in CASES:
        config = configure(name, "co2l", {"batch_size": batch_size, "buffer_size": 200, "width": width})
        forecast = seconds(footprint(config, 1, examples=4 * batch_size).kernels, here, "fp32")
        steps = whole_steps(second_task(name, batch_size, 4 * batch_size, torch.device("cpu"), width=width))
        measured = fastest(lambda steps=steps: next(steps), rounds)
        ratios.append(forecast / measured)
        print(
            f"{name} batch {batch_size}, {width} filters: forecast {forecast:.3f} s, measured {measured:.3f} s,",
            end=" ",
        )
        print(f"ratio {ratios[-1]:.2f}")
    print(f"ratio {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
