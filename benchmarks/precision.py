"""What bf16 changes: the target of distillation on real images, and the accuracy on digits over seeds.

    python benchmarks/precision.py targets --data DIR [--only r_mnist]
    python benchmarks/precision.py digits [--seeds 10]

`targets`: Co²L learns its first task for some steps in float32. Then the past model's answer to batches of views, at
the paper's κ*, is computed in float32 and in bf16 by the same weights, and also as it would be if projections were
put on the unit sphere in bf16 too. The figure is the total variation between them, a view's mean; the limit is 0.02.
`digits`: the whole of Seq-Digits with the default settings, once in each precision per seed; accuracies are on
validation data, and the difference has a 95% interval (Student's t over the pairs).
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from pathlib import Path

import torch
from scipy import stats
from torch import Tensor
from torch.nn import functional as F

from co2l.data.augmentation import augment
from co2l.data.benchmarks import standardise
from co2l.data.randomness import generator_for
from co2l.data.root import data_root
from co2l.data.streams import Split, open_stream
from co2l.learning.encoders import Mixed
from co2l.learning.events import Result, RunDone
from co2l.learning.losses import _logits, similarity
from co2l.learning.methods import configure
from co2l.learning.methods.co2l import Co2L
from co2l.learning.run import run
from co2l.learning.store import Store

CPU = torch.device("cpu")
BATCHES = 5


def trained(name: str, steps: int, data: Path, **settings: int) -> Co2L:
    """Co²L after some steps of its first task."""
    config = configure(name, "co2l", settings)
    stream = open_stream(name, split=config.split, seed=0, data=data)
    method = Co2L(config.settings, stream.benchmark, 0, CPU)
    method.begin_task(0, stream.train(0))
    epoch, done = 0, 0
    while done < steps:
        epoch += 1
        for batch in method.draw(epoch)[: steps - done]:
            method.step(batch, config.settings.eta * 0.2, generator_for(0, "step", done))
            done += 1
    return method


def target(z: Tensor, kappa_star: float) -> Tensor:
    return F.softmax(_logits(similarity(z), kappa_star), dim=1)


def variation(p: Tensor, q: Tensor) -> float:
    return float((p - q).abs().sum(1).mean() / 2)


@torch.no_grad()
def targets(method: Co2L) -> tuple[list[float], list[float]]:
    """The total variation of each batch's target: as we compute it, and with bf16 on the unit sphere."""
    ours, rounded = [], []
    for i, batch in enumerate(method.draw(1)[:BATCHES]):
        images = method.D.images_at(batch).repeat(2, 1, 1, 1)
        views = augment(images, method.benchmark.augmentation, generator_for(0, "views", i))
        views = standardise(views, method.benchmark)
        projections = {}
        for precision in ("fp32", "bf16"):
            for part in method.psi.modules():
                if isinstance(part, Mixed):
                    part.precision = precision
            projections[precision] = method.psi.g(method.psi.f(views))
        kappa_star = method.settings.kappa_star
        exact = target(F.normalize(projections["fp32"]), kappa_star)
        ours.append(variation(exact, target(F.normalize(projections["bf16"]), kappa_star)))
        rounded.append(variation(exact, target(F.normalize(projections["bf16"].bfloat16()), kappa_star)))
    return ours, rounded


def report_targets(data: Path, only: str | None) -> None:
    for name, steps, settings in (
        ("r_mnist", 100, {"batch_size": 256}),
        ("seq_cifar10", 40, {"batch_size": 64, "width": 32}),
    ):
        if only in (None, name):
            method = trained(name, steps, data, **settings)
            print(f"{name}, {settings}, after {steps} steps, κ* {method.settings.kappa_star}, {BATCHES} batches")
            for label, found in zip(("float32 sphere", "bf16 sphere"), targets(method), strict=True):
                print(f"  {label:14s} total variation {statistics.fmean(found):.4f}, at most {max(found):.4f}")


def result(seed: int, precision: str) -> Result:
    config = configure("seq_digits", "co2l", {"precision": precision}, seed=seed, split=Split("search"))
    stream = open_stream("seq_digits", split=config.split, seed=seed, data=Path())
    with tempfile.TemporaryDirectory() as root:
        for event in run(config, stream, Store(root), device=CPU):
            if isinstance(event, RunDone):
                return event.result
    raise AssertionError("a run ends with its result")


def report_digits(seeds: int) -> None:
    pairs = []
    for seed in range(seeds):
        pairs.append([result(seed, precision).score for precision in ("fp32", "bf16")])
        print(f"  seed {seed}: fp32 {pairs[-1][0]:.2f}, bf16 {pairs[-1][1]:.2f}", flush=True)
    differences = [after - before for before, after in pairs]
    mean, deviation = statistics.fmean(differences), statistics.stdev(differences)
    half = stats.t.ppf(0.975, seeds - 1) * deviation / math.sqrt(seeds)
    averages = [statistics.fmean(column) for column in zip(*pairs, strict=True)]
    print(f"seq_digits, {seeds} seeds: fp32 {averages[0]:.2f}, bf16 {averages[1]:.2f}")
    print(f"  bf16 - fp32 = {mean:+.2f}, 95% interval [{mean - half:+.2f}, {mean + half:+.2f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["targets", "digits"])
    parser.add_argument("--data")
    parser.add_argument("--only", choices=["r_mnist", "seq_cifar10"])
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    if args.what == "targets":
        report_targets(data_root(args.data), args.only)
    else:
        report_digits(args.seeds)


if __name__ == "__main__":
    main()
