"""What a search finds for its epochs, replayed without training on grids that were recorded, ours beside its peers.

    python benchmarks/efficiency.py --replay FILE… --search NAME… --workers 4 --budget 0.08 [--json]
    python benchmarks/efficiency.py --json > rows.json
    python benchmarks/efficiency.py --rows rows.json --figure docs/efficiency.png
    python benchmarks/efficiency.py --record benchmarks/recorded/seq_digits.yaml [--root runs/recorded]

The first replays recordings, also your own, with algorithms of ours or the peers of `peers.py`, until the budget is
trained: a share of the naive epochs, in which every trial is trained alone. The second and third measure, print and
draw what docs/choosing-an-algorithm.md shows. The last trains every trial of a grid on one thread and writes its scores
after each task to a JSON file next to the space; run it again to continue.

`NAME+good` begins with the fifth best point of the grid, `NAME+misleading` with the worst.

`NAME+race` keeps a share of its budget for a race (`--share`).

Regret is how far what a search selects is below the best of the grid. Where a recording has several seeds, a search
sees one of them, another for each study, and regret is that of the means over the others. If a race is among the
searches, every search is measured on the seeds that no race may try: of n seeds, (n - 1) // 2 are for races.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import peers

from co2l.errors import Co2lError, unknown
from co2l.search.algorithms.registry import ALGORITHMS
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation, recorded
from co2l.search.selection.rule import select
from co2l.search.space.budget import Budget
from co2l.search.space.choice import Race
from co2l.search.space.plan import order, plan
from co2l.search.space.space import Configuration, Space, load
from co2l.search.space.trial import Trial

RECORDED = Path(__file__).parent / "recorded"
BUDGETS = (0.05, 0.08, 0.10, 0.13)
OURS = ("auto", "random", "tpe", "gp")
STARTS = {"good": 4, "misleading": -1}  # the rank of the point that is tried first: the fifth best, or the worst


@dataclass(frozen=True, eq=False)
class Recording:
    """A grid and the scores of its trials after each task, in the order of `Space.trials`."""

    name: str
    space: Space
    scores: list[list[float]]

    @classmethod
    def read(cls, path: Path) -> Recording:
        """The JSON file; its space is next to it."""
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            space = load(path.parent / plain["space"])
        except (OSError, ValueError, KeyError) as error:
            raise Co2lError(f"not a recording ({error})", where=str(path), fix="make one with --record") from None
        space = space.replace(algorithm="grid", samples=None, early_stop=None)
        if len(plain["scores"]) != space.size:
            what = f"{len(plain['scores'])} rows of scores for {space.size} trials"
            raise Co2lError(what, where=str(path), fix="record the grid again")
        return cls(path.stem, space, plain["scores"])

    def of_seed(self, seed: int) -> tuple[Space, list[list[float]]]:
        """The grid with one seed."""
        rows = [row for trial, row in zip(self.space.trials(), self.scores, strict=True) if trial.seed == seed]
        return self.space.replace(seeds=[seed]), rows

    def for_races(self, seen: int) -> tuple[int, ...]:
        """The seeds of the races of searches that see this one: those that follow it."""
        seeds = self.space.seeds
        first = seeds.index(seen) + 1
        return tuple(seeds[i % len(seeds)] for i in range(first, first + (len(seeds) - 1) // 2))

    def held_out(self, seen: Collection[int]) -> dict[Configuration, float]:
        """The mean final score of each configuration over the seeds that a search does not see, if there are any."""
        seeds = set(self.space.seeds) - set(seen) or set(seen)
        finals: dict[Configuration, list[float]] = {}
        for trial, row in zip(self.space.trials(), self.scores, strict=True):
            if trial.seed in seeds:
                finals.setdefault(self.space.configuration(trial.values), []).append(row[-1])
        return {point: math.fsum(scores) / len(scores) for point, scores in finals.items()}


@dataclass(frozen=True)
class Study:
    """What one search came to."""

    regret: float
    epochs: int


@dataclass(frozen=True)
class Row:
    """A search on a recording, as a mean over studies."""

    recording: str
    search: str
    workers: int
    budget: float
    regret: float  # points below the grid's best
    stderr: float
    within_half: float  # share of the studies with a regret of at most 0.5
    share_naive: float  # epochs trained, as a share of those without reuse
    share_reuse: float  # and of those that the grid trains with reuse


def replay(recording: Recording, search: str, workers: int, budget: float, share: float | None, study: int) -> Study:
    """One study: what it selects, and what it trains. Its number is the seed of the search.

    `share` is that of races; None if there are none to compare with.
    """
    seen = recording.space.seeds[study % len(recording.space.seeds)]
    further = () if share is None else recording.for_races(seen)
    space, scores, naive, means = _seen(recording, seen, further)
    epochs = budget * naive
    if search in peers.PEERS:
        chosen, trained = peers.PEERS[search](space, scores, workers, epochs, study)
    elif search.endswith("+race"):
        chosen, trained = _raced(recording, search, workers, epochs, share or 0.0, study, (seen, *further))
    else:
        chosen, trained = _ours(space, scores, search, workers, epochs, study)
    return Study(max(means.values()) - (min(means.values()) if chosen is None else means[chosen]), trained)


@functools.lru_cache(maxsize=4)
def _seen(
    recording: Recording, seed: int, further: tuple[int, ...]
) -> tuple[Space, list[list[float]], int, dict[Configuration, float]]:
    """What studies of one seed have in common: the grid, scores, naive epochs, and the means to compare with."""
    space, scores = recording.of_seed(seed)
    return space, scores, plan(space).epochs_naive, recording.held_out((seed, *further))


def _ours(
    grid: Space, scores: list[list[float]], search: str, workers: int, epochs: float, seed: int
) -> tuple[Configuration | None, int]:
    name, _, addition = search.partition("+")
    space = peers.searching(grid, name, early_stop=addition == "rungs")
    if addition in STARTS:
        trials = sorted(zip(grid.trials(), scores, strict=True), key=lambda each: each[1][-1], reverse=True)
        point = dict(grid.configuration(trials[STARTS[addition]][0].values))
        space = space.replace(start=[point])
    return _searched(space, workers, epochs, seed, recorded(grid, scores))


def _raced(
    recording: Recording, search: str, workers: int, epochs: float, share: float, seed: int, seeds: tuple[int, ...]
) -> tuple[Configuration | None, int]:
    """`seeds` are the one that the search sees, and those of its race."""
    name, *additions = search.removesuffix("+race").split("+")
    grid, _ = recording.of_seed(seeds[0])
    if len(seeds) == 1:
        raise Co2lError(f"{recording.name} has too few seeds for a race", where="--replay", fix="record three or more")
    selection = grid.selection.model_copy(update={"race": Race(seeds=len(seeds), share=share)})
    space = peers.searching(grid, name, early_stop="rungs" in additions).replace(selection=selection)
    of = dict(zip(space.further_seeds, seeds[1:], strict=True))
    return _searched(space, workers, epochs, seed, recorded(recording.space, recording.scores, of))


def _searched(
    space: Space, workers: int, epochs: float, seed: int, accuracy: Callable[[Trial, int], float]
) -> tuple[Configuration | None, int]:
    record = StudyRecord.open(None, "replay", space)
    simulation = Simulation(space, record, workers=workers, seed=seed, budget=Budget(epochs), accuracy=accuracy)
    trained = simulation.run().epochs_trained
    selected = select(space, record.entries.values()).selected
    return (space.configuration(selected[0].values) if selected else None), trained


def summarise(recording: Recording, search: str, workers: int, budget: float, studies: Sequence[Study]) -> Row:
    regrets, (grid, _) = [each.regret for each in studies], recording.of_seed(recording.space.seeds[0])
    trained, planned = statistics.mean(each.epochs for each in studies), plan(grid)
    stderr = statistics.stdev(regrets) / math.sqrt(len(regrets)) if len(regrets) > 1 else 0.0
    return Row(
        recording.name,
        search,
        workers,
        budget,
        regret=round(statistics.mean(regrets), 4),
        stderr=round(stderr, 4),
        within_half=sum(each <= 0.5 for each in regrets) / len(regrets),
        share_naive=round(trained / planned.epochs_naive, 4),
        share_reuse=round(trained / planned.epochs_planned, 4),
    )


def compare(
    recordings: Iterable[Recording],
    searches: Sequence[str],
    workers: int,
    budgets: Sequence[float],
    studies: int,
    processes: int,
    share: float | None,
) -> Iterable[Row]:
    with ProcessPoolExecutor(processes) as pool:
        for recording in recordings:
            for search in searches:
                for budget in (1.0,) if search == "grid" else budgets:
                    seeds = range(1 if search == "grid" else studies)
                    one = functools.partial(replay, recording, search, workers, budget, share)
                    each = pool.map(one, seeds, chunksize=math.ceil(len(seeds) / processes))
                    yield summarise(recording, search, workers, budget, list(each))


def table(rows: Sequence[Row]) -> str:
    """In Markdown, a line per search and a column per budget."""
    lines: list[str] = []
    for name in dict.fromkeys(row.recording for row in rows):
        mine = [row for row in rows if row.recording == name]
        budgets = sorted({row.budget for row in mine})
        lines += [f"\n{name}, {mine[0].workers} workers: regret ± standard error, by share of the naive epochs\n"]
        lines += [
            f"| search | {' | '.join(f'{budget:.0%}' for budget in budgets)} |",
            "|---" * (len(budgets) + 1) + "|",
        ]
        for search in dict.fromkeys(row.search for row in mine):
            of = {row.budget: f"{row.regret:.2f} ± {row.stderr:.2f}" for row in mine if row.search == search}
            lines.append(f"| {search} | {' | '.join(of.get(budget, '') for budget in budgets)} |")
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Regret over epochs with standard errors, a panel per recording."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.recording for row in rows))
    figure = Figure(figsize=(4.6 * len(names), 3.8), layout="constrained")
    for panel, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for search in dict.fromkeys(row.search for row in rows if row.search != "grid"):
            mine = [row for row in rows if (row.recording, row.search) == (name, search)]
            shares, regrets = [100 * row.budget for row in mine], [row.regret for row in mine]
            panel.errorbar(shares, regrets, [row.stderr for row in mine], marker="o", capsize=3, label=search)
        panel.set(title=name, xlabel="epochs (% of the naive)", ylabel="regret (points)")
        panel.set_ylim(bottom=0)
    panel.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def record(path: Path, root: Path) -> None:
    """Train every trial of the grid in this process, and stages that trials share only once."""
    import torch

    from co2l.data.root import data_root
    from co2l.learning.events import RunDone, TaskDone
    from co2l.learning.metrics import score
    from co2l.learning.run import run
    from co2l.learning.store import Store

    torch.set_num_threads(1)
    space = load(path)
    shared, store = plan(space).shared, Store(str(root / path.stem))
    scores: dict[str, list[float]] = {}
    for trial in order(space.trials()):
        tasks = trial.config.open_stream(data_root())
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="recordings (default: all of ours)")
    known = [*ALGORITHMS, *(f"{name}+rungs" for name in ("random", "tpe", "gp")), *peers.PEERS]
    known += [f"{name}+{start}" for name in ALGORITHMS for start in STARTS]
    known += [f"{name}+race" for name in (*ALGORITHMS, "random+rungs", "tpe+rungs", "gp+rungs")]
    parser.add_argument("--search", nargs="+", metavar="NAME", help=", ".join(known))
    parser.add_argument("--workers", type=int, default=4, help="trials at once (default: 4)")
    parser.add_argument("--budget", type=float, nargs="+", default=BUDGETS, help="share of the naive epochs, as 0.08")
    parser.add_argument("--share", type=float, default=0.3, help="of the budget, for races (default: 0.3)")
    parser.add_argument("--studies", type=int, default=20, help="study seeds (default: 20)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="replays at once")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--figure", type=Path, help="where to draw, such as docs/efficiency.png")
    parser.add_argument(
        "--rows", type=Path, nargs="+", metavar="FILE", help="what --json printed, instead of measuring"
    )
    parser.add_argument("--record", type=Path, help="a space whose grid to train and record")
    parser.add_argument("--root", type=Path, default=Path("runs/recorded"), help="where to store its stages")
    args = parser.parse_args()
    if args.record:
        record(args.record, args.root)
        return
    searches = args.search or [*OURS, *peers.installed()]
    for name in searches:
        if name not in known:
            raise unknown("search", name, known, where="--search")
    if args.rows:
        rows = [Row(**row) for path in args.rows for row in json.loads(path.read_text(encoding="utf-8"))]
    else:
        recordings = [Recording.read(path) for path in args.replay or sorted(RECORDED.glob("*.json"))]
        share = args.share if any(name.endswith("+race") for name in searches) else None
        rows = list(compare(recordings, searches, args.workers, args.budget, args.studies, args.processes, share))
    print(json.dumps([asdict(row) for row in rows], indent=1) if args.json else table(rows), flush=True)
    if args.figure:
        draw(rows, args.figure)


if __name__ == "__main__":
    try:
        main()
    except Co2lError as error:
        raise SystemExit(f"error: {error}") from None
