"""What a step of each method costs relative to ER, and what batching GEM's and GSS's gradients gains.

    python benchmarks/methods.py [--benchmark r_mnist] [--past 10] [--rounds 5] [--buffer-size 200]

Every method is brought to the middle of a task stream (after `--past` tasks) with its default settings and the same
batch size. Methods take steps in turns, round by round, so a noisy machine affects all equally; figures are medians.
Images are random, of the right shape: the cost does not depend on what they show. Co²L has two views per example, a
past model and a projector, and no classifier.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from co2l.data import buffer
from co2l.data.benchmarks import Benchmark, benchmark, standardise
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.device import choose_device
from co2l.learning.gradients import ExampleGradients, gradient
from co2l.learning.methods import METHODS, configure


def task(spec: Benchmark, t: int, n: int, device: torch.device) -> Examples:
    images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8, generator=generator_for(t, "images"))
    first = t * spec.classes_per_task if spec.scenario == "class" else 0
    labels = first + torch.arange(n) % spec.classes_per_task
    return Examples(images, labels, torch.full_like(labels, t)).to(device)


def in_the_middle(name: str, spec: Benchmark, past: int, size: int, batch: int, device: torch.device) -> Any:
    """The method after `past` tasks of one step each, at the start of the next one."""
    own = METHODS[name].settings_type.model_fields
    wanted = {"batch_size": batch, "buffer_size": size, "minibatch_size": batch}
    config = configure(spec.name, name, {key: value for key, value in wanted.items() if key in own})
    method: Any = METHODS[name](config.settings, spec, 0, device)
    for t in range(past + 1):
        examples = task(spec, t, 4 * batch, device)
        method.begin_task(t, examples)
        method.step(torch.arange(batch, device=device), 1e-4, generator_for(t, device=device))
        if t < past:
            method.end_task(t, examples)
    return method


def looped_task_gradients(method: Any) -> Tensor:
    memory, rows = method.memory, []
    x = standardise(memory.images, method.benchmark)
    for t in memory.tasks.unique():
        own = memory.tasks == t
        rows.append(gradient(method.network, F.cross_entropy(method.network(x[own]), memory.labels[own])))
    return torch.stack(rows)


def looped_example_gradients(method: Any, x: Tensor, labels: Tensor) -> Tensor:
    network = method.network
    return torch.stack(
        [gradient(network, F.cross_entropy(network(x[i : i + 1]), labels[i : i + 1])) for i in range(len(x))]
    )


def in_turns(contenders: dict[str, Callable[[], object]], rounds: int, wait: Callable[[], None]) -> dict[str, float]:
    """Median seconds per call of each."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(rounds + 1):
        for name, call in contenders.items():
            wait()
            started = time.perf_counter()
            call()
            wait()
            if i:  # the first round warms up
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in seconds.items()}


def show(title: str, seconds: dict[str, float], unit: str) -> None:
    print(title)
    for name, found in seconds.items():
        print(f"  {name:24} {1000 * found:9.1f} ms {found / seconds[unit]:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="r_mnist")
    parser.add_argument("--past", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--buffer-size", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device, spec = choose_device(args.device), benchmark(args.benchmark)
    past = min(args.past, spec.tasks - 1)
    wait = torch.accelerator.synchronize if device.type != "cpu" else lambda: None
    print(f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads")

    learners = {
        name: in_the_middle(name, spec, past, args.buffer_size, args.batch_size, device)
        for name, kind in METHODS.items()
        if spec.scenario in kind.scenarios
    }
    batch = torch.arange(args.batch_size, device=device)
    steps = {
        name: lambda learner=learner: learner.step(batch, 1e-4, generator_for(0, device=device))
        for name, learner in learners.items()
    }
    title = f"{spec.name}, task {past + 1}, batch {args.batch_size}, buffer {args.buffer_size}"
    show(f"{title}: a step, relative to ER", in_turns(steps, args.rounds, wait), "er")

    gem, gss = learners["gem"], learners["gss"]
    known = gss.memory.gather(buffer.draw(gss.memory, gss.settings.gmbs, generator_for(0, device=device)))
    x, labels = standardise(known.images, spec), known.labels
    gradients = {
        "GEM, batched": lambda: gem.past_gradients(generator_for(0, device=device)),
        "GEM, looped": lambda: looped_task_gradients(gem),
        "GSS, batched": lambda: ExampleGradients.of(gss.network, x, labels),
        "GSS, looped": lambda: looped_example_gradients(gss, x, labels),
    }
    found = in_turns(gradients, args.rounds, wait)
    show(f"gradients of {past} tasks' memories", {k: v for k, v in found.items() if "GEM" in k}, "GEM, batched")
    show(f"gradients of {len(known)} examples", {k: v for k, v in found.items() if "GSS" in k}, "GSS, batched")


if __name__ == "__main__":
    main()
