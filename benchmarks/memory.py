"""How much memory a Seq-CIFAR-10 run takes compared to the bare training step: peak resident set, in two processes.

    python benchmarks/memory.py --data DIR [--width 32] [--batch 64] [--tasks 2] [--validation 0.1]

  a  the bare step of the second task on one fixed batch of views (see co2l/cluster/steps.py)
  b  a real run through its first tasks: data, training, probe, checkpoints
The target is b ≤ 1.5 × (a + dataset). All images are in memory whatever `--validation` is; a large value only makes
epochs short.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
from pathlib import Path
from typing import Any

MB = 2**20


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def bare(answer: Any, width: int, batch: int) -> None:
    import torch

    from co2l.cluster.steps import bare_steps, second_task

    method = second_task("seq_cifar10", batch, 4 * batch, torch.device("cpu"), width=width)
    steps = bare_steps(method, batch)
    for _ in range(5):
        next(steps)
    answer.put(peak())


def whole(answer: Any, width: int, batch: int, data: str, tasks: int, validation: float) -> None:
    import torch

    from co2l.data.streams import Split, open_stream
    from co2l.learning.events import TaskDone
    from co2l.learning.methods import configure
    from co2l.learning.run import run
    from co2l.learning.store import Store

    settings = {"width": width, "batch_size": batch, "E_0": 1, "E_t": 1, "probe_epochs": 1, "warmup_epochs": 0}
    config = configure("seq_cifar10", "co2l", settings, split=Split("search", validation))
    stream = open_stream("seq_cifar10", split=config.split, seed=0, data=Path(data))
    dataset = stream.train(0).images.nbytes
    with tempfile.TemporaryDirectory() as root:
        for event in run(config, stream, Store(root), device=torch.device("cpu")):
            if isinstance(event, TaskDone) and event.task + 1 == tasks:
                break
    answer.put((peak(), dataset))


def measured(job: Any, *arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=job, args=(answer, *arguments))
    process.start()
    found = answer.get()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--validation", type=float, default=0.1)
    args = parser.parse_args()
    a = measured(bare, args.width, args.batch)
    data = str(Path(args.data).absolute())
    b, dataset = measured(whole, args.width, args.batch, data, args.tasks, args.validation)
    print(f"ResNet-18 width {args.width}, batch {args.batch}, {args.tasks} tasks of Seq-CIFAR-10")
    print(f"  a bare step       {a / MB:8,.0f} MB")
    print(f"  dataset           {dataset / MB:8,.0f} MB")
    print(f"  b whole run       {b / MB:8,.0f} MB   b / (a + dataset) = {b / (a + dataset):.2f}")


if __name__ == "__main__":
    main()
