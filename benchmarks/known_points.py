"""How soon a search finds a good configuration when it knows some, or believes so: replayed on recorded grids.

    python benchmarks/known_points.py [--replay FILE…] [--search NAME…] [--workers 4] [--studies 20] [--json]

Counts the epochs that are trained, those under way too, until a configuration within half a point of the grid's best
has its result, as a share of the naive epochs. `NAME+good` begins with the fifth best point (`start:`),
`NAME+misleading` with the worst. The others begin as with `--from-study`, after a whole grid: `NAME+RECORDING` after
that recording's, on another seed where it has one, and `NAME+reversed` after one whose ranking is turned round, so that
its best are the worst here.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import peers
from efficiency import RECORDED, STARTS, Recording

from co2l.errors import Co2lError, unknown
from co2l.search.algorithms.earlier import points
from co2l.search.algorithms.registry import ALGORITHMS
from co2l.search.record.entries import Entry
from co2l.search.record.reader import StoredStudy
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation, recorded
from co2l.search.space.document import Value
from co2l.search.space.plan import plan
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

NEAR = 0.5  # points from the best
SEARCHES = ("random", "tpe", "auto")
Rows = list[list[float]]


@dataclass(frozen=True)
class Row:
    recording: str
    search: str
    workers: int
    share_naive: float  # mean over the studies
    stderr: float
    most: float  # of any study


class _Found(Exception):  # noqa: N818  (good news)
    """A configuration near the best has its result."""


def earlier(space: Space, rows: Rows) -> StoredStudy:
    """A whole grid with one seed, as its study would be read."""
    ended = {
        trial.key: Entry(trial.key, trial.values, trial.seed, "done", row[-1])
        for trial, row in zip(space.trials(), rows, strict=True)
    }
    return StoredStudy("earlier", "search", space, ended, space.digest)


def first_points(
    addition: str, recordings: Sequence[Recording], grid: Space, rows: Rows, study: int
) -> list[dict[str, Value]]:
    """What a search on the grid begins with; earlier seeds take turns."""
    if addition in STARTS:
        ranked = sorted(zip(grid.trials(), rows, strict=True), key=lambda each: each[1][-1], reverse=True)
        return [dict(grid.configuration(ranked[STARTS[addition]][0].values))]
    if addition == "reversed":
        return points(grid, earlier(grid, [[-score for score in row] for row in rows]))
    other = next(each for each in recordings if each.name == addition)
    seeds = [seed for seed in other.space.seeds if seed not in grid.seeds] or list(other.space.seeds)
    return points(grid, earlier(*other.of_seed(seeds[study % len(seeds)])))


def epochs_until(recordings: Sequence[Recording], recording: Recording, search: str, workers: int, study: int) -> float:
    """Epochs trained until one study has a configuration near the best, as a share of the naive."""
    grid, rows = recording.of_seed(recording.space.seeds[study % len(recording.space.seeds)])
    name, _, addition = search.partition("+")
    space = peers.searching(grid, name)
    if addition:
        space = space.replace(start=first_points(addition, recordings, grid, rows, study))
    known, best = recorded(grid, rows), max(row[-1] for row in rows)

    def accuracy(trial: Trial, finished_tasks: int) -> float:
        score = known(trial, finished_tasks)
        if finished_tasks == len(trial.config.epochs) and score >= best - NEAR:
            raise _Found
        return score

    record = StudyRecord.open(None, "known", space)
    simulation = Simulation(space, record, workers=workers, seed=study, accuracy=accuracy)
    try:
        simulation.run()
    except _Found:
        return simulation.seen.epochs_trained / plan(grid).epochs_naive
    raise AssertionError("the whole grid holds its best")


def measure(recordings: Sequence[Recording], recording: Recording, args: argparse.Namespace) -> Iterator[Row]:
    with ProcessPoolExecutor(args.processes) as pool:
        for search in args.search or searches(recordings, recording):
            one = functools.partial(epochs_until, recordings, recording, search, args.workers)
            shares = list(pool.map(one, range(args.studies)))
            stderr = statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
            found = [round(each, 4) for each in (statistics.mean(shares), stderr, max(shares))]
            yield Row(recording.name, search, args.workers, *found)


def searches(recordings: Sequence[Recording], recording: Recording) -> list[str]:
    """All that make sense: after another recording, or after another seed of the same."""
    method = recording.space.method
    others = [each.name for each in recordings if each.space.method == method and each.name != recording.name]
    additions = [*STARTS, "reversed", *others, *([recording.name] if len(recording.space.seeds) > 1 else [])]
    return [*SEARCHES, *(f"auto+{addition}" for addition in additions)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="recordings (default: all of ours)")
    parser.add_argument("--search", nargs="+", metavar="NAME", help="an algorithm, with an addition if you like")
    parser.add_argument("--workers", type=int, default=4, help="trials at once (default: 4)")
    parser.add_argument("--studies", type=int, default=20, help="study seeds (default: 20)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="replays at once")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    args = parser.parse_args()
    recordings = [Recording.read(path) for path in sorted(RECORDED.glob("*.json"))]
    names = [*STARTS, "reversed", *(each.name for each in recordings)]
    for search in args.search or ():
        name, plus, addition = search.partition("+")
        if name not in ALGORITHMS or (plus and addition not in names):
            known = [*ALGORITHMS, *(f"{name}+{each}" for each in names if name in ALGORITHMS)]
            raise unknown("search", search, known, where="--search")
    if not args.json:
        print("| recording | search | share of the naive epochs | most |\n|---|---|---|---|", flush=True)
    rows: list[Row] = []
    for recording in [Recording.read(path) for path in args.replay] if args.replay else recordings:
        for row in measure(recordings, recording, args):
            rows.append(row)
            if not args.json:
                shown = f"{row.share_naive:.1%} ± {row.stderr:.1%} | {row.most:.1%}"
                print(f"| {row.recording} | {row.search} | {shown} |", flush=True)
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    try:
        main()
    except Co2lError as error:
        raise SystemExit(f"error: {error}") from None
