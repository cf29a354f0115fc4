"""What a search finds for its epochs: grid, random, TPE, and TPE with rungs, replayed on recorded grids.

    python benchmarks/efficiency.py [--studies 20] [--figure docs/efficiency.png]
    python benchmarks/efficiency.py --record benchmarks/recorded/seq_digits.yaml [--root runs/recorded]

The first trains nothing; it prints the tables and draws the figure of docs/choosing-an-algorithm.md. The second trains
every trial of a grid on one thread and writes its scores after each task to a JSON file next to the space; run it again
to continue.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import platform
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation, recorded
from co2l.search.selection.rule import select
from co2l.search.space.plan import order, plan
from co2l.search.space.space import Space, load

RECORDED = Path(__file__).parent / "recorded"
SHARES = (1 / 8, 1 / 4, 1 / 3)  # of the grid's trials to draw
WORKERS = 4  # at once, so TPE must decide before all results are in
KINDS: dict[str, dict[str, Any]] = {
    "random": {"algorithm": "random"},
    "TPE": {"algorithm": "tpe"},
    "TPE with rungs": {"algorithm": "tpe", "early_stop": True},
}


@dataclass(frozen=True)
class Point:
    """An algorithm on a grid: each list has one number per study seed."""

    kind: str
    samples: int
    regret: list[float]  # points below the best of the grid
    epochs: list[float]  # trained, as a share of those that the grid trains


def record(path: Path, root: Path) -> None:
    """Train every trial of the grid in this process, and stages that trials share only once."""
    import torch

    from co2l.data.sources import data_root
    from co2l.data.streams import open_stream
    from co2l.learning.events import RunDone, TaskDone
    from co2l.learning.metrics import score
    from co2l.learning.run import run
    from co2l.learning.store import Store

    torch.set_num_threads(1)
    space = load(path)
    shared, store = plan(space).shared, Store(str(root / path.stem))
    scores: dict[str, list[float]] = {}
    for trial in order(space.trials()):
        tasks = open_stream(space.benchmark, split=space.split, seed=trial.seed, data=data_root(None))
        after: list[float] = []
        for event in run(trial.config, tasks, store, device=torch.device("cpu"), retain=shared.__contains__):
            if isinstance(event, TaskDone) and event.row is not None:
                after.append(score(event.row))
            if isinstance(event, RunDone):
                after[-1] = event.result.score  # searches select by it
        scores[trial.key] = [round(each, 4) for each in after]
        print(f"{len(scores)}/{space.size} {scores[trial.key]}", flush=True)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    head = json.dumps({"space": path.name, "versions": versions}, indent=1).removesuffix("\n}")
    rows = ",\n  ".join(json.dumps(scores[trial.key]) for trial in space.trials())
    path.with_suffix(".json").write_text(f'{head},\n "scores": [\n  {rows}\n ]\n}}\n', encoding="utf-8")


def replay(space: Space, scores: list[list[float]], seed: int) -> tuple[float, int]:
    """The score of what a search selects, and the epochs it trains."""
    found = StudyRecord.open(None, "replay", space)
    seen = Simulation(space, found, workers=WORKERS, seed=seed, accuracy=recorded(_grid(space), scores)).run()
    return select(space, found.entries.values()).selected[0].score, seen.epochs_trained


def _grid(space: Space) -> Space:
    return space.replace(algorithm="grid", samples=None, early_stop=None)


def compare(grid: Space, scores: list[list[float]], studies: int, processes: int) -> list[Point]:
    best, whole = replay(grid, scores, 0)
    assert best == max(row[-1] for row in scores)
    points = [Point("grid", len(scores), [0.0], [1.0])]
    with ProcessPoolExecutor(processes) as pool:
        for kind, share in itertools.product(KINDS, SHARES):
            samples = round(share * len(scores))
            space = grid.replace(samples=samples, **KINDS[kind])
            runs = list(pool.map(functools.partial(replay, space, scores), range(studies)))
            regret, epochs = [best - score for score, _ in runs], [epochs / whole for _, epochs in runs]
            points.append(Point(kind, samples, regret, epochs))
    return points


def table(name: str, grid: Space, scores: list[list[float]], points: list[Point]) -> str:
    """In Markdown."""
    final = sorted((row[-1] for row in scores), reverse=True)
    within = sum(score >= final[0] - 1 for score in final)
    lines = [
        f"{name}: {len(final)} trials, {plan(grid).epochs_planned:,} epochs with reuse; best {final[0]:.2f}, "
        f"median {statistics.median(final):.2f}, {within} within 1 point of the best",
        "",
        "| search | trials | regret (points) | at most 1 point | epochs of the grid's |",
        "|---|---|---|---|---|",
    ]
    for point in points:
        near = sum(regret <= 1 for regret in point.regret)
        lines.append(
            f"| {point.kind} | {point.samples} | {_spread(point.regret, '.2f')} | {near}/{len(point.regret)} "
            f"| {_spread([100 * share for share in point.epochs], '.1f')}% |"
        )
    return "\n".join(lines)


def _spread(values: list[float], form: str) -> str:
    if len(values) == 1:
        return format(values[0], form)
    return f"{format(statistics.mean(values), form)} ± {format(statistics.stdev(values), form)}"


def draw(compared: dict[str, list[Point]], path: Path) -> None:
    """Mean regret over mean epochs, with standard errors, a panel per grid."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(compared), 3.8), layout="constrained")
    panels = figure.subplots(1, len(compared), squeeze=False)[0]
    for panel, (name, points) in zip(panels, compared.items(), strict=True):
        for kind, marker in zip(KINDS, "os^", strict=True):
            chosen = [point for point in points if point.kind == kind]
            panel.errorbar(
                [100 * statistics.mean(point.epochs) for point in chosen],
                [statistics.mean(point.regret) for point in chosen],
                [statistics.stdev(point.regret) / math.sqrt(len(point.regret)) for point in chosen],
                marker=marker,
                capsize=3,
                label=kind,
            )
        panel.axhline(1, color="grey", linewidth=0.8, linestyle=":")
        panel.axvline(25, color="grey", linewidth=0.8, linestyle=":")
        panel.set(title=name, xlabel="epochs trained (% of the grid's)", ylabel="points below the grid's best")
        panel.set_ylim(bottom=0)
        panel.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=20, help="study seeds per algorithm, from 2")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="replays at once")
    parser.add_argument("--figure", type=Path, help="where to draw, such as docs/efficiency.png")
    parser.add_argument("--record", type=Path, help="a space whose grid to train and record")
    parser.add_argument("--root", type=Path, default=Path("runs/recorded"), help="where to store its stages")
    args = parser.parse_args()
    if args.record:
        record(args.record, args.root)
        return
    compared: dict[str, list[Point]] = {}
    for path in sorted(RECORDED.glob("*.json")):
        grid, scores = load(path.with_suffix(".yaml")), json.loads(path.read_text(encoding="utf-8"))["scores"]
        compared[path.stem] = compare(grid, scores, args.studies, args.processes)
        print(table(path.stem, grid, scores, compared[path.stem]), end="\n\n", flush=True)
    if args.figure:
        draw(compared, args.figure)


if __name__ == "__main__":
    main()
