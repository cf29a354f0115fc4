"""A whole search: open record and tracking, run what is left to run, select, and leave the outcome in all places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.streams import open_stream
from co2l.search import selection
from co2l.search.conductor import Conductor, Watcher
from co2l.search.engine import connected, run_trials
from co2l.search.evaluation import OverSeeds, over_seeds
from co2l.search.nodes import JOIN_SECONDS, check_resources
from co2l.search.plan import plan
from co2l.search.reports import Totals
from co2l.search.selection import Choice
from co2l.search.space import Cell, Space
from co2l.search.study import Record
from co2l.search.tracking import Tracker
from co2l.search.trainable import Assignment, CellTrainable

FLUSH_SECONDS = 60.0  # without an answer, until tracking gives up at the end; the rest waits in its spool
STOP_SECONDS = 5.0  # the same, for who was asked to stop
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
    save_every: float = 60.0  # seconds between the states within a task
    model: str | None = None  # the name under which an evaluation registers its classifiers


@dataclass(frozen=True)
class Outcome:
    choice: Choice  # of a search
    selected_file: Path
    tested: list[OverSeeds]  # by an evaluation
    totals: Totals
    left: int  # cells that were not run
    failed: dict[str, str]  # cell key -> reason
    untracked: int  # operations that wait for the tracking server
    page: str  # where the MLflow UI shows the trials: the end of an address, if it is known


def search(
    space: Space,
    options: Options,
    watcher: Watcher,
    asked_to_stop: Callable[[], bool],
    trainable: type[CellTrainable] = CellTrainable,
) -> Outcome:
    """Run the search as far as it comes; the same call again continues it."""
    options.root.mkdir(parents=True, exist_ok=True)
    if options.address is None:  # a cluster's data are on its workers
        open_stream(space.benchmark, split=space.split, seed=space.seeds[0], data=options.data)
    record = Record.open(options.storage, options.study, space, fresh=options.fresh)
    with record.lease.beating():
        return _search(space, options, record, watcher, lambda: asked_to_stop() or record.lease.lost, trainable)


def _search(
    space: Space,
    options: Options,
    record: Record,
    watcher: Watcher,
    asked_to_stop: Callable[[], bool],
    trainable: type[CellTrainable],
) -> Outcome:
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
                    trainable=trainable,
                )
        choice, rows = Choice((), (), ()), list[OverSeeds]()
        path = options.root / "selected" / f"{options.study}.yaml"
        told: dict[str, Any] = {
            "table": _table(record),
            "price": _price(record),
            "complete": conductor.queue.unfinished == 0,
        }
        if space.split.kind == "evaluation":
            rows = over_seeds(space, record.entries.values())
            _register(space, record, tracker, options)
            tracker.close_evaluation(rows=rows, **told)
        else:
            choice = selection.select(space, record.entries.values())
            selection.write(path, space, choice)
            tracker.close_study(selected=choice.selected, figures=record.figures(), **told)
    finally:
        untracked = tracker.close(STOP_SECONDS if asked_to_stop() else FLUSH_SECONDS)
    failed = {key: entry.reason for key, entry in record.entries.items() if entry.status == "failed"}
    left = conductor.queue.unfinished
    return Outcome(choice, path, rows, record.totals(), left, failed, untracked, tracker.page)


def assignments(space: Space, options: Options) -> Callable[[Cell], Assignment]:
    """What a worker is told of a cell. Without reuse every cell has a store of its own."""
    shared = plan(space).shared if options.reuse else frozenset[str]()
    tasks = BENCHMARKS[space.benchmark].tasks
    evaluated = space.split.kind == "evaluation"

    def assign(cell: Cell) -> Assignment:
        described = cell.config.as_dict()
        keys = cell.config.stage_keys(tasks)
        # the first stage of an evaluation is another one's too: the paper's ablations begin like its main table
        wanted = shared | {keys[0]} if evaluated and options.reuse else shared
        return Assignment(
            cell=cell.key,
            split=described.pop("split"),
            config=described,
            store=options.store if options.reuse else f"{options.store}/alone/{cell.key}",
            data=str(options.data),
            device=options.device,
            threads=max(1, int(space.resources.cpus)),
            save_every=options.save_every,
            keep=tuple(key for key in keys if key in wanted),
            exports=options.store if evaluated and cell.seed == space.seeds[0] else "",
        )

    return assign


def _register(space: Space, record: Record, tracker: Tracker, options: Options) -> None:
    """The first seed of each configuration, whatever its accuracy; the first configuration is the selected one."""
    if options.model is None:
        return
    alias: str | None = "selected"
    for cell in space.cells():
        entry = record.entries.get(cell.key)
        exports = (entry.result or {}).get("exports") if entry else None
        if exports and cell.seed == space.seeds[0]:
            tracker.register(cell, options.model, store=options.store, key=exports["classifier"], alias=alias)
            alias = None


def _price(record: Record) -> dict[str, float]:
    totals = record.totals()
    return {
        "epochs_trained": totals.epochs_trained,
        "epochs_reused": totals.epochs_reused,
        "trial_hours": totals.seconds / 3600,
    }


def _table(record: Record) -> list[dict[str, Any]]:
    return [
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
