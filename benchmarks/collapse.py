"""How often Co²L's representation collapses on R-MNIST, with z on the unit sphere and without.

    python benchmarks/collapse.py --data DIR [--seeds 10] [--images 1000] [--eta 0.05]

Short runs: so many images of each domain, E_0 = 5, E_t = 1, batch 64, buffer 500, the paper's temperatures. Prints, for
each seed, the largest share of dead features after a task, the largest mean loss of a task, and the accuracies.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from co2l.data.benchmarks import benchmark
from co2l.data.cache import in_memory
from co2l.data.root import data_root
from co2l.data.sources import load
from co2l.data.streams import Split, TaskStream
from co2l.errors import Co2lError
from co2l.learning.collapse import COLLAPSED
from co2l.learning.events import EpochDone, Result, RunDone
from co2l.learning.methods import configure
from co2l.learning.run import run
from co2l.learning.store import Store

SPLIT = Split("search", fraction=0.2)


def one(seed: int, *, sphere: bool, images: int, eta: float, data: Path) -> tuple[Result, float]:
    """The result of a run, and the largest mean loss of its tasks after the first."""
    everything = load("mnist", "train", data)
    rows = slice(0, round(images / (1 - SPLIT.fraction)))
    few = in_memory(everything.images[rows].numpy(), everything.labels[rows].numpy())
    tasks = TaskStream(benchmark("r_mnist"), SPLIT, seed, few, None)
    schedule = {"E_0": 5, "E_t": 1, "batch_size": 64, "eta": eta, "schedule_by": "step"}
    probe = {"matrix_probe": "none", "probe": "fast", "probe_lr": 0.1, "probe_epochs": 20}
    settings = {**schedule, **probe, "buffer_size": 500, "unit_sphere": sphere}
    config = configure("r_mnist", "co2l", settings, seed=seed, split=SPLIT)
    worst, result = 0.0, None
    with tempfile.TemporaryDirectory() as folder:
        for event in run(config, tasks, Store(folder), device=torch.device("cpu"), retain=lambda _: False):
            if isinstance(event, EpochDone) and event.task > 0:
                worst = max(worst, sum(event.losses.values()))
            if isinstance(event, RunDone):
                result = event.result
    assert result is not None
    return result, worst


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", help="folder with MNIST (default: $CO2L_DATA or ./data)")
    p.add_argument("--seeds", type=int, default=10)
    p.add_argument("--first", type=int, default=0, help="the first of the seeds")
    p.add_argument("--images", type=int, default=1000, help="of each domain")
    p.add_argument("--eta", type=float, default=0.05)
    args = p.parse_args()
    torch.set_num_threads(1)
    for sphere in (True, False):
        collapsed = 0
        for seed in range(args.first, args.first + args.seeds):
            try:
                result, loss = one(seed, sphere=sphere, images=args.images, eta=args.eta, data=data_root(args.data))
            except Co2lError as error:  # the loss is no number any more
                print(f"unit_sphere={sphere} seed {seed}: {error}", flush=True)
                collapsed += 1
                continue
            dead = max(share or 0.0 for share in result.dead)
            collapsed += dead >= COLLAPSED
            row = result.final["domain_il"]
            print(
                f"unit_sphere={sphere} seed {seed}: dead {dead:.0f}%, largest loss {loss:.2f},"
                f" mean of domains {sum(row) / len(row):.1f}, last {row[-1]:.1f}",
                flush=True,
            )
        print(f"unit_sphere={sphere}: {collapsed} of {args.seeds} collapsed", flush=True)


if __name__ == "__main__":
    main()
