"""A whole search or evaluation: open record and tracking, run what is left to run, and conclude."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from co2l.data.benchmark_file import found
from co2l.errors import OutsideError, headline
from co2l.imports import active
from co2l.learning.device import device_for
from co2l.learning.metrics import reported
from co2l.learning.store import Store
from co2l.names import check_name
from co2l.search.algorithms.earlier import taken
from co2l.search.garbage import claim_of
from co2l.search.record.choosing import choosing
from co2l.search.record.entries import Cost
from co2l.search.record.importance import importance
from co2l.search.record.lease import driving
from co2l.search.record.study import StudyRecord
from co2l.search.running.coordinator import Coordinator, Watcher
from co2l.search.running.engine import connected, run_trials
from co2l.search.running.failures import FailureLog
from co2l.search.running.local_ray import LocalRay
from co2l.search.running.nodes import JOIN_SECONDS, check_resources
from co2l.search.running.trainable import Assignment, TrialTrainable
from co2l.search.selection.rule import Choice, select, write
from co2l.search.selection.seeds import SeedSummary, summarise_seeds
from co2l.search.space.budget import Budget
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.plan import plan
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial
from co2l.search.tracking import Tracker
from co2l.urls import sqlite_file, sqlite_url

FLUSH_SECONDS = 60.0  # without an answer, until tracking gives up at the end; the rest waits in its spool
STOP_SECONDS = 5.0  # the same, if the search was asked to stop
T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """Where and how a study runs; the space says what is run."""

    root: Path
    study: str
    data: Path
    store: str
    storage: str
    tracking_uri: str
    address: str | None = None
    wait: float = JOIN_SECONDS  # for a first node of that cluster that holds a trial
    early: LocalRay | None = None  # a Ray on this machine that was begun while the rest was imported
    seed: int = 0
    max_concurrent: int | None = None
    time_budget: float | None = None
    budget: Budget | None = None
    reuse: bool = True
    fresh: bool = False
    from_study: str | None = None  # an earlier study whose best points a search begins with
    save_every: float = 60.0  # seconds between the states within a task
    model: str | None = None  # the name under which an evaluation registers its classifiers
    kept: Path | None = None  # where the root will be found later, if this one is a copy

    def __post_init__(self) -> None:
        check_name(self.study, "the study's name")

    @property
    def claimed(self) -> str:
        """Where the record will be found later."""
        file = sqlite_file(self.storage)
        if self.kept and file and file.is_relative_to(self.root):
            return sqlite_url(self.kept / file.relative_to(self.root))
        return self.storage

    @property
    def failures(self) -> FailureLog:
        return FailureLog(self.root / "logs" / self.study)


@dataclass(frozen=True)
class Summary:
    """What searches and evaluations both end with."""

    cost: Cost  # of all attempts, those of earlier drivers too
    left: int  # trials that were not run
    failed: dict[str, str]  # trial key -> reason
    untracked: int  # operations that wait for the tracking server
    page: str  # where the MLflow UI shows the trials: the end of an address, if it is known


@dataclass(frozen=True)
class SearchResult:
    choice: Choice
    selected_file: Path
    summary: Summary
    importance: dict[str, float]  # of each axis, the largest first; empty for too few results


@dataclass(frozen=True)
class EvaluationResult:
    tested: list[SeedSummary]
    summary: Summary
    aliases: list[str]  # of the registered model, the first one `selected`; empty if none is registered


@dataclass(frozen=True)
class _Study:
    """What a search and an evaluation are concluded from."""

    record: StudyRecord
    tracker: Tracker
    complete: bool


def search(
    space: Space,
    options: Options,
    watcher: Watcher,
    asked_to_stop: Callable[[], bool],
    trainable: type[TrialTrainable] = TrialTrainable,
) -> SearchResult:
    """Run the search as far as it comes, and select; the same call again continues it."""
    path = options.root / "selected" / f"{options.study}.yaml"

    def conclude(study: _Study) -> tuple[Choice, dict[str, float]]:
        entries = study.record.entries.values()
        choice, shares = select(space, entries), importance(space, entries)
        write(path, space, choice, choosing(space, entries))
        study.tracker.close_study(
            selected=choice.selected,
            shares=shares,
            entries=entries,
            table=_table(study.record),
            cost=study.record.cost(),
            complete=study.complete,
        )
        return choice, shares

    (choice, shares), summary = _drive(space, options, watcher, asked_to_stop, trainable, conclude)
    return SearchResult(choice, path, summary, shares)


def evaluate(
    evaluation: Evaluation,
    options: Options,
    watcher: Watcher,
    asked_to_stop: Callable[[], bool],
    trainable: type[TrialTrainable] = TrialTrainable,
) -> EvaluationResult:
    """Run the evaluation as far as it comes, and average over seeds; the same call again continues it."""

    def conclude(study: _Study) -> tuple[list[SeedSummary], list[str]]:
        rows = summarise_seeds(evaluation, study.record.entries.values())
        aliases = _register(evaluation, study, options.model, options.store, rows)
        study.tracker.close_evaluation(
            rows=rows, table=_table(study.record), cost=study.record.cost(), complete=study.complete
        )
        return rows, aliases

    (rows, aliases), summary = _drive(evaluation, options, watcher, asked_to_stop, trainable, conclude)
    return EvaluationResult(rows, summary, aliases)


def _drive(
    space: Space,
    options: Options,
    watcher: Watcher,
    asked_to_stop: Callable[[], bool],
    trainable: type[TrialTrainable],
    conclude: Callable[[_Study], T],
) -> tuple[T, Summary]:
    """Run what is left to run, as the study's only driver, and conclude."""
    watcher.doing("opening the data, the study and MLflow", checking=True)
    options.root.mkdir(parents=True, exist_ok=True)
    store = Store(options.store)
    store.claim(claim_of(store, options.claimed))
    if options.address is None:  # a cluster's data are on its workers
        space.any_trial().config.open_stream(options.data)
    with driving(options.storage, options.study) as lease:
        earlier = None
        if options.from_study is not None:
            earlier = taken(space, options.storage, options.study, options.from_study, fresh=options.fresh)
        record = StudyRecord.open(options.storage, options.study, space, fresh=options.fresh, earlier=earlier)
        if record.earlier:
            space = record.earlier.leading(space)
        where = {"uri": options.tracking_uri, "study": options.study}
        spool = options.root / "spool"
        tracker = Tracker.open(**where, space=space, spool=spool, identity=record.identity, earlier=record.earlier)

        def has_to_stop() -> bool:
            return asked_to_stop() or lease.lost

        try:
            tracker.reconcile(record.entries)
            coordinator = Coordinator(
                space,
                record,
                tracker,
                watcher,
                reuse=options.reuse,
                seed=options.seed,
                failures=options.failures,
                budget=options.budget,
            )
            if coordinator.queue.unfinished and not has_to_stop():
                watcher.doing(f"connecting to {options.address}" if options.address else "starting Ray")
                _run(coordinator, space, options, has_to_stop, trainable)
            left = coordinator.queue.unfinished
            watcher.doing("writing the result")
            concluded = conclude(_Study(record, tracker, complete=left == 0))
        finally:
            untracked = tracker.close(STOP_SECONDS if has_to_stop() else FLUSH_SECONDS)
    if coordinator.trouble:
        raise OutsideError(headline(coordinator.trouble))
    failed = {key: entry.reason for key, entry in record.entries.items() if entry.status == "failed"}
    return concluded, Summary(record.cost(), left, failed, untracked, tracker.page)


def _run(
    coordinator: Coordinator,
    space: Space,
    options: Options,
    asked_to_stop: Callable[[], bool],
    trainable: type[TrialTrainable],
) -> None:
    cpus, gpus = space.resources.cpus, space.resources.gpus
    with connected(options.address, options.early):
        check_resources(cpus, gpus, 0 if options.address is None else options.wait, asked_to_stop)
        run_trials(
            coordinator,
            assignments(space, options),
            asked_to_stop,
            cpus=cpus,
            gpus=gpus,
            max_concurrent=options.max_concurrent,
            time_budget=options.time_budget,
            trainable=trainable,
        )


def assignments(space: Space, options: Options) -> Callable[[Trial], Assignment]:
    """What a worker gets to know of a trial. Without reuse every trial has its own store."""
    shared = plan(space).shared if options.reuse else frozenset[str]()
    evaluated, greedy = space.split.kind == "evaluation", space.selection.protocol.greedy is not None
    imports = tuple(each.as_dict() for each in active())

    def assign(trial: Trial) -> Assignment:
        described = trial.config.as_dict()
        if trial.config.spec.digest:  # workers have other folders
            described["benchmark"] = str(found(space.benchmark))
        described.pop("plugins", None)
        keys = trial.config.stage_keys(len(trial.config.epochs))
        # evaluations share first stages with each other: the paper's ablations begin like its main table
        wanted = shared | {keys[0]} if evaluated and options.reuse else shared
        if trial.seed not in space.seeds and options.reuse:  # of a race: nobody knows yet who shares its first stages
            wanted = frozenset(keys[segment.stages[-1]] for segment in trial.chain[:-1])
        if greedy and options.reuse:  # nobody knows yet which states the next round goes on from
            wanted = frozenset(keys if trial.config.until else keys[:-1])
        return Assignment(
            trial=trial.key,
            split=described.pop("split"),
            config=described,
            store=options.store if options.reuse else f"{options.store}/alone/{trial.key}",
            data=str(options.data),
            device=device_for(space.resources.gpus),
            gpus=space.resources.gpus,
            threads=max(1, int(space.resources.cpus)),
            save_every=options.save_every,
            retained=tuple(key for key in keys if key in wanted),
            plugins=tuple(map(asdict, trial.config.plugins)),
            imports=imports,
            exports=options.store if evaluated and trial.seed == space.seeds[0] else "",
        )

    return assign


def _register(space: Space, study: _Study, model: str | None, store: str, rows: Sequence[SeedSummary]) -> list[str]:
    """The first seed of each configuration, whatever its accuracy; the first configuration is the selected one.

    Returns the aliases: `selected`, and one for each buffer size.
    """
    if model is None:
        return []
    given: list[str] = []
    of = {tuple(row.values.items()): row for row in rows}
    for trial in space.trials():
        entry = study.record.entries.get(trial.key)
        exports = (entry.result or {}).get("exports") if entry else None
        if exports and trial.seed == space.seeds[0]:
            size = getattr(trial.config.settings, "buffer_size", None)
            wanted = ["selected", *([] if size is None else [f"buffer_{size}"])]
            aliases = [alias for alias in wanted if alias not in given]
            given += aliases
            study.tracker.register(
                trial, model, store=store, key=exports["classifier"], aliases=aliases, tested=of[trial.group]
            )
    return given


def _table(record: StudyRecord) -> list[dict[str, Any]]:
    return [
        {
            "trial": entry.key,
            **entry.values,
            "seed": entry.seed,
            "status": entry.status,
            "score": entry.score,
            **(reported(entry.result) if entry.result else {}),
            **asdict(entry.cost),
            "seconds": round(entry.cost.seconds, 1),
            "reason": entry.reason,
        }
        for entry in record.entries.values()
    ]
