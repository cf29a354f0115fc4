"""How a search's own work grows with its cells: 10,000 against 1,000, simulated, without training and without Ray.

    python benchmarks/scale.py [--rounds 3]

Prints the processor time of both, their ratio (the target is at most 12) and the growth of the peak memory (the
target is less than 200 MB). Every round compares a search of 10,000 with the mean of five before and five after it.
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
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    seconds(1)  # what is loaded late belongs to neither
    before, ratios = peak_megabytes(), []
    for _ in range(args.rounds):
        few = [seconds(1) for _ in range(5)]
        many = seconds(10)
        few += [seconds(1) for _ in range(5)]
        ratios.append(many / statistics.mean(few))
        print(
            f"1,000 cells {statistics.mean(few):.2f} s, 10,000 cells {many:.2f} s: {ratios[-1]:.1f} times", flush=True
        )
    print(f"ratio {statistics.median(ratios):.1f} (the target is at most 12)")
    print(f"peak memory {before:,.0f} MB, then {peak_megabytes():,.0f} MB")


if __name__ == "__main__":
    main()
