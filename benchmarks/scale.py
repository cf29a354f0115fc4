"""How a search's own work grows with its cells: 10,000 against 1,000, simulated, without training and without Ray.

    python benchmarks/scale.py [--rounds 5]

Prints the processor time of both, their ratio (the target is at most 12) and the growth of the peak memory.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

from co2l.search.simulation import Simulation
from co2l.search.space import parse
from co2l.search.study import Record

AXES = {name: [0.01 * (i + 1) for i in range(10)] for name in ("eta", "kappa", "kappa_star")}


def seconds(seeds: int) -> float:
    """Processor time of a search of 1,000 cells for each seed, by 64 workers."""
    space = parse({"benchmark": "seq_digits", "axes": AXES, "seeds": list(range(seeds))}, "scale")
    started = time.process_time()
    record = Record.open(None, "scale", space)
    Simulation(space, record, workers=64).run()
    assert len(record.finished()) == 1000 * seeds
    return time.process_time() - started


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    few = statistics.median(seconds(1) for _ in range(args.rounds))
    before = peak_megabytes()
    many = seconds(10)
    print(f"1,000 cells {few:.2f} s, 10,000 cells {many:.2f} s: {many / few:.1f} times")
    print(f"peak memory {before:,.0f} MB, then {peak_megabytes():,.0f} MB")


if __name__ == "__main__":
    main()
