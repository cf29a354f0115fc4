"""How close the memory estimate comes to what the system sees: the growth of the resident set, in fresh processes.

    python benchmarks/footprint.py

For each trial, a new process runs small steps first, so that torch has loaded what it needs, then two steps
of the trial in its second task. The growth of its peak resident set since then is compared with the estimate. The
system's malloc is told to return freed blocks at once: what it keeps for later is no need of the trial.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

TRIALS: list[tuple[str, str, dict[str, int]]] = [
    ("seq_cifar10", "co2l", {"width": 16, "batch_size": 128}),
    ("seq_cifar10", "co2l", {"width": 32, "batch_size": 64}),
    ("seq_cifar10", "co2l", {"width": 64, "batch_size": 64}),
    ("seq_cifar10", "er", {"width": 64, "batch_size": 128, "minibatch_size": 128}),
    ("r_mnist", "co2l", {"batch_size": 1024}),
]
MB = 2**20


def grown(answer: Any, name: str, method: str, settings: dict[str, int], n: int) -> None:
    import resource

    import torch

    from co2l.data import buffer
    from co2l.data.benchmarks import benchmark
    from co2l.data.examples import Examples
    from co2l.data.randomness import generator_for
    from co2l.learning.methods import METHODS, configure

    spec = benchmark(name)

    def drawn(n: int, t: int) -> Examples:
        images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8)
        labels = torch.arange(n) % spec.classes_per_task
        labels += t * spec.classes_per_task if spec.scenario == "class" else 0
        return Examples(images, labels, torch.full((n,), t))

    def steps(settings: dict[str, int], n: int) -> None:
        config = configure(name, method, {"buffer_size": 200, **settings})
        learner: Any = METHODS[method](config.settings, spec, 0, torch.device("cpu"))
        learner.memory = buffer.add(learner.memory, drawn(200, 0), 200, "reservoir", generator_for(0, "buffer"))
        task = drawn(n, 1)
        learner.begin_task(1, task)
        for i in range(2):
            learner.step(learner.draw(1)[0], 0.01, generator_for(0, "step", i))

    steps({**settings, "width": 16, "batch_size": 8}, 16)
    before = resident()
    steps(settings, n)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)


def resident() -> int:
    import resource
    from pathlib import Path

    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    from co2l.learning.footprint import footprint
    from co2l.learning.methods import configure

    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # of the processes started here
    context = multiprocessing.get_context("spawn")
    for name, method, settings in TRIALS:
        n = 2 * settings["batch_size"]
        answer = context.Queue()
        process = context.Process(target=grown, args=(answer, name, method, settings, n))
        process.start()
        measured = answer.get()
        process.join()
        estimated = footprint(configure(name, method, {"buffer_size": 200, **settings}), 1, examples=n).peak
        shown = " ".join(f"{key}={value}" for key, value in settings.items())
        print(
            f"{name} {method} {shown:<42} estimate {estimated / MB:7,.0f} MB  resident {measured / MB:7,.0f} MB"
            f"  ratio {estimated / measured:.2f}"
        )


if __name__ == "__main__":
    main()
