"""How well thaw's model ranks configurations that it has not seen, on grids that were recorded; no search is replayed.

    python benchmarks/ranking.py [--replay FILE…] [--known 6 12 24] [--length 0.7 2] [--own 0.05,0.15,0.3 …]

Of so many random configurations the model knows all scores, and of as many others those after the first one or two
tasks but the first. Prints Spearman's rank correlation of its predictions with the final scores of all others, as a
mean over draws, for each length of the kernel. Each seed of a recording is a grid by itself.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from efficiency import RECORDED, Recording
from scipy.stats import spearmanr

from co2l.errors import Co2lError
from co2l.search.algorithms import gaussian_process
from co2l.search.algorithms.gaussian_process import Growing, Indices, Numbers, ScoreModel
from co2l.search.algorithms.thaw import _distances

NOBODY: Indices = np.array([], dtype=np.int64)


class Grid:
    """One seed's grid, with a model of it that knows nothing yet."""

    def __init__(self, recording: Recording, seed: int) -> None:
        space, rows = recording.of_seed(seed)
        self.name = f"{recording.name}, seed {seed}"
        self.scores: Numbers = np.array(rows)
        names = space.drawn_axes
        lists = dict(zip(names, space.lists(names), strict=True))
        trials = list(space.trials())
        points = [[lists[name].index(v) for name, v in space.configuration(trial.values)] for trial in trials]
        epochs: Numbers = np.array([trial.config.epochs for trial in trials], dtype=float).cumsum(1)
        distances = [_distances(lists[name]) for name in names]
        self.model = ScoreModel(np.array(points), distances, np.zeros(len(points), dtype=np.int64), 1, epochs)

    def correlation(self, known: int, draw: int) -> float:
        tasks = self.scores.shape[1]
        rng = random.Random(f"{self.name}/{known}/{draw}")
        order = rng.sample(range(len(self.scores)), len(self.scores))
        scores = Growing()
        for i, point in enumerate(order[: 2 * known]):
            for t in range(1, tasks if i < known else rng.choice([2, 3])):
                scores.append(point, 0, tasks - 1 - t, self.scores[point, t])
        others: Indices = np.array(sorted(order[known:]))
        mean, _ = self.model.predict(scores.scores(), others, NOBODY)
        return float(spearmanr(mean, self.scores[others, -1]).statistic)


def measure(recordings: Sequence[Recording], known: Sequence[int], draws: int) -> Iterable[tuple[str, list[float]]]:
    for recording in recordings:
        for seed in recording.space.seeds:
            grid = Grid(recording, seed)
            yield grid.name, [statistics.mean(grid.correlation(n, k) for k in range(draws)) for n in known]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="recordings (default: all of ours)")
    parser.add_argument("--known", type=int, nargs="+", default=[6, 12, 24], help="configurations that are known")
    parser.add_argument(
        "--length", type=float, nargs="+", default=[gaussian_process.LENGTH], help="in widths of an axis"
    )
    parser.add_argument("--own", help="shares of a configuration's own deviation, as 0.05,0.15,0.3")
    parser.add_argument("--draws", type=int, default=60, help="sets of known configurations")
    args = parser.parse_args()
    if args.own:
        gaussian_process.OWN = tuple(float(each) for each in args.own.split(","))
    recordings = [Recording.read(path) for path in args.replay or sorted(RECORDED.glob("*.json"))]
    for length in args.length:
        gaussian_process.LENGTH = length
        rows = list(measure(recordings, args.known, args.draws))
        means = [statistics.mean(each) for each in zip(*(found for _, found in rows), strict=True)]
        for name, found in [*rows, ("mean", means)]:
            values = "  ".join(f"{n}: {r:.2f}" for n, r in zip(args.known, found, strict=True))
            print(f"length {length:g}  {name:32} {values}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Co2lError as error:
        raise SystemExit(f"error: {error}") from None
