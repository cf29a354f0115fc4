"""A whole search: open record and tracking, run what is left to run, select, and leave the outcome in all places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.streams import open_stream
from co2l.search import selection
from co2l.search.conductor import Conductor, Watcher
from co2l.search.engine import connected, run_trials
from co2l.search.nodes import JOIN_SECONDS, check_resources
from co2l.search.plan import plan
from co2l.search.reports import Totals
from co2l.search.selection import Choice
from co2l.search.space import Cell, Space
from co2l.search.study import Record
from co2l.search.tracking import Tracker
from co2l.search.trainable import Assignment

FLUSH_SECONDS = 60.0  # for tracking to catch up at the end; the rest waits in its spool
ENDED = {"done": "finished", "failed": "failed", "pruned": "pruned", "pending": "killed"}


@dataclass(frozen=True)
class Options:
    """Where and how a search runs; what it searches is the space's affair."""

    root: Path
    study: str
    data: Path
    store: str
    storage: str
    tracking_uri: str
    address: str | None = None
    device: str = "auto"
    seed: int = 0
    max_concurrent: int | None = None
    time_budget: float | None = None
    reuse: bool = True
    fresh: bool = False


@dataclass(frozen=True)
class Outcome:
    choice: Choice
    selected_file: Path
    totals: Totals
    left: int  # cells that were not run
    failed: dict[str, str]  # cell key -> reason
    untracked: int  # operations that wait for the tracking server


def search(space: Space, options: Options, watcher: Watcher, asked_to_stop: Callable[[], bool]) -> Outcome:
    """Run the search as far as it comes; the same call again continues it."""
    options.root.mkdir(parents=True, exist_ok=True)
    if options.address is None:  # a cluster's data are on its workers
        open_stream(space.benchmark, split=space.split, seed=space.seeds[0], data=options.data)
    record = Record.open(options.storage, options.study, space, fresh=options.fresh)
    tracker = Tracker.open(
        options.tracking_uri, options.study, space=space, artifact_root=None, spool=options.root / "spool"
    )
    try:
        tracker.reconcile({key: ENDED.get(entry.status, "killed") for key, entry in record.entries.items()})
        conductor = Conductor(space, record, tracker, watcher, reuse=options.reuse, seed=options.seed)
        if conductor.queue.unfinished:
            with connected(options.address):
                check_resources(
                    space.resources.cpus, space.resources.gpus, wait=0 if options.address is None else JOIN_SECONDS
                )
                run_trials(
                    conductor,
                    assignments(space, options),
                    asked_to_stop,
                    cpus=space.resources.cpus,
                    gpus=space.resources.gpus,
                    max_concurrent=options.max_concurrent,
                    time_budget=options.time_budget,
                )
        choice = selection.select(space, record.entries.values())
        path = options.root / "selected" / f"{options.study}.yaml"
        selection.write(path, space, choice)
        _track_outcome(space, record, tracker, choice, complete=conductor.queue.unfinished == 0)
    finally:
        untracked = tracker.close(FLUSH_SECONDS)
    failed = {key: entry.reason for key, entry in record.entries.items() if entry.status == "failed"}
    left = conductor.queue.unfinished
    return Outcome(choice, path, record.totals(), left, failed, untracked)


def assignments(space: Space, options: Options) -> Callable[[Cell], Assignment]:
    """What a worker is told of a cell. Without reuse every cell has a store of its own."""
    shared = plan(space).shared if options.reuse else frozenset[str]()
    tasks = BENCHMARKS[space.benchmark].tasks

    def assign(cell: Cell) -> Assignment:
        described = cell.config.as_dict()
        return Assignment(
            cell=cell.key,
            split=described.pop("split"),
            config=described,
            store=options.store if options.reuse else f"{options.store}/alone/{cell.key}",
            data=str(options.data),
            device=options.device,
            threads=max(1, int(space.resources.cpus)),
            keep=tuple(key for key in cell.config.stage_keys(tasks) if key in shared),
        )

    return assign


def _track_outcome(space: Space, record: Record, tracker: Tracker, choice: Choice, *, complete: bool) -> None:
    totals = record.totals()
    table = [
        {
            "cell": entry.key,
            **entry.values,
            "seed": entry.seed,
            "status": entry.status,
            "score": entry.score,
            **(entry.result["average"] if entry.result else {}),
            "epochs_trained": entry.epochs_trained,
            "epochs_reused": entry.epochs_reused,
            "seconds": round(entry.seconds, 1),
            "reason": entry.reason,
        }
        for entry in record.entries.values()
    ]
    tracker.close_study(
        selected=[each.as_dict(space) for each in choice.selected],
        selected_cells=[cell for each in choice.selected for cell in each.cells],
        table=table,
        figures=record.figures(),
        price={
            "epochs_trained": totals.epochs_trained,
            "epochs_reused": totals.epochs_reused,
            "trial_hours": totals.seconds / 3600,
        },
        complete=complete,
    )
