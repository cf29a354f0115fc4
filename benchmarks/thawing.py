"""How long thaw takes to decide, simulated, without training: 10,000 trials, paused and continued after every task.

    python benchmarks/thawing.py [--trials 10000] [--epochs 20000]

Prints the median CPU time of a decision for every tenth of the epochs (the target is a flat line), beside 1,000 trials.
"""

from __future__ import annotations

import argparse
import statistics
import time

from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation
from co2l.search.running.thaw_queue import ThawQueue
from co2l.search.space.budget import Budget
from co2l.search.space.space import Space, parse

AXES = {name: [0.01 * (i + 1) for i in range(10)] for name in ("eta", "kappa", "kappa_star", "distill_power")}
PARTS, WORKERS = 10, 16


def space_of(trials: int) -> Space:
    """So many of the 10,000 points of four axes."""
    axes = {**AXES, "distill_power": AXES["distill_power"][: trials // 1000]}
    settings = {"E_0": 20, "E_t": 10, "matrix_probe": "fast"}
    return parse({"benchmark": "seq_digits", "algorithm": "thaw", "axes": axes, "settings": settings}, "thawing")


class Timed:
    """The CPU time of each decision that is not remembered."""

    def __init__(self, queue: ThawQueue) -> None:
        self.seconds: list[float] = []
        self._decide = queue._promising
        queue._promising = self  # type: ignore[assignment,method-assign]

    def __call__(self) -> object:
        began = time.process_time()
        try:
            return self._decide()
        finally:
            self.seconds.append(time.process_time() - began)


def decisions(trials: int, epochs: int) -> list[float]:
    """The median time of a decision in each part of a search, in milliseconds."""
    space = space_of(trials)
    simulation = Simulation(space, StudyRecord.open(None, "thawing", space), workers=WORKERS, budget=Budget(epochs))
    queue = simulation.coordinator.queue
    assert isinstance(queue, ThawQueue)
    timed = Timed(queue)
    simulation.run()
    each = len(timed.seconds) // PARTS
    return [1000 * statistics.median(timed.seconds[i * each : (i + 1) * each]) for i in range(PARTS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 10_000], help="multiples of 1,000")
    parser.add_argument("--epochs", type=int, default=20_000, help="the budget")
    args = parser.parse_args()
    for trials in args.trials:
        found = decisions(trials, args.epochs)
        print(f"{trials:6,} trials: {' '.join(f'{each:.0f}' for each in found)} ms a decision", flush=True)


if __name__ == "__main__":
    main()
