"""How many operations an accelerator is asked for in a training step, of every method, beside the bare step's.

    python benchmarks/launches.py [--only r_mnist]

Counted on the tests' fake device, on a machine without an accelerator: every operation that is not a view is a launch.
A small network's step is bound by them, not by arithmetic. In the second task, for ResNet-18 on CIFAR-10 and the
R-MNIST network. The bare step is the model's own work on a fixed batch of views: for Co²L current and past model,
losses, backward pass and optimiser (the targets are 1.6 times this on R-MNIST and 1.8 times on ResNet-18); for
baselines one forward pass, cross-entropy, backward pass and optimiser.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # for the fake device

import torch
from fake_device import Seen, fake_device
from torch.nn import functional as F

from co2l.cluster.steps import bare_steps, second_task
from co2l.data.benchmarks import Benchmark, benchmark, standardise
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.methods import METHODS, configure

FAKE = torch.device("fake")
BATCH, STEPS = 4, 3
SMALL = {"batch_size": BATCH, "minibatch_size": BATCH, "gmbs": BATCH, "buffer_size": 20, "width": 16}


def task(spec: Benchmark, t: int) -> Examples:
    n = 6 * BATCH
    images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8, generator=generator_for(t, "images"))
    first = t * spec.classes_per_task if spec.scenario == "class" else 0
    labels = first + torch.arange(n) % spec.classes_per_task
    return Examples(images, labels, torch.full_like(labels, t)).to(FAKE)


def step(name: str, spec: Benchmark, seen: Seen) -> tuple[int, int]:
    """Operations and waits of a step of the method in its second task, with a full buffer."""
    chosen = {**SMALL, "buffer_policy": "reservoir"}
    own = {key: value for key, value in chosen.items() if key in METHODS[name].settings_type.model_fields}
    method = METHODS[name](configure(spec.name, name, own).settings, spec, 0, FAKE)
    for t in (0, 1):
        method.begin_task(t, examples := task(spec, t))
        for i, batch in enumerate(method.draw(1)[: None if t == 0 else STEPS]):
            seen.clear()
            method.step(batch, 1e-4, generator_for(0, t, i, device=FAKE))
        if t == 0:
            method.end_task(0, examples)
    return seen.operations, len(seen.waits)


def bare_contrast(spec: Benchmark, seen: Seen) -> int:
    method = second_task(spec.name, BATCH, 4 * BATCH, FAKE, width=16, buffer_policy="reservoir")
    steps = bare_steps(method, BATCH)
    next(steps)
    seen.clear()
    next(steps)
    return seen.operations


def bare_classifier(spec: Benchmark, seen: Seen) -> int:
    method = METHODS["finetune"](configure(spec.name, "finetune", {"width": 16}).settings, spec, 0, FAKE)
    method.begin_task(0, examples := task(spec, 0))
    now = examples.gather(torch.arange(BATCH, device=FAKE))
    views = standardise(now.images, spec)
    for _ in range(2):
        seen.clear()
        method.optimiser.descend(F.cross_entropy(method.network(views), now.labels), 1e-4)  # type: ignore[attr-defined]
    return seen.operations


def report(spec: Benchmark) -> None:
    print(f"{spec.name}: operations of a step, and times the bare step's")
    with fake_device() as seen:
        contrast, classifier = bare_contrast(spec, seen), bare_classifier(spec, seen)
        print(f"  {'bare co2l':10s} {contrast:6d}\n  {'bare er, …':10s} {classifier:6d}")
        for name, method in METHODS.items():
            if spec.scenario in method.scenarios:
                operations, waits = step(name, spec, seen)
                bare = contrast if name == "co2l" else classifier
                print(f"  {name:10s} {operations:6d} {operations / bare:6.2f}   {f'{waits} waits' if waits else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["seq_cifar10", "r_mnist"])
    args = parser.parse_args()
    for name in ("r_mnist", "seq_cifar10"):
        if args.only in (None, name):
            report(benchmark(name))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the fake device's threads do not end with Python
