"""The record of a search: which cells were tried and how they ended, as an Optuna study in its storage.

Every cell is one Optuna trial, through all its attempts. What was read or written once is kept in memory, so that no
operation looks at more than its own cell.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from co2l.errors import CLUSTER_EXTRA, Co2lError
from co2l.learning.config import VERSION
from co2l.search.document import Range, Value
from co2l.search.lease import Lease, Read, Write, refuse_second_driver
from co2l.search.reports import Entry, Report, Status, Totals, totals
from co2l.search.space import Cell, Space, difference

WAIT = 10.0  # seconds for a storage that is locked or does not answer
LOSSES = 5  # of a cell's process, in a row and without a new epoch, until the cell itself is to blame
STATUS: dict[TrialState, Status] = {
    TrialState.WAITING: "pending",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


class Record:
    """Made by `open`. The same storage and name continue a search; nothing that ended is tried again."""

    def __init__(self, storage: BaseStorage, study: int, name: str, space: Space, place: str, lease: Lease) -> None:
        self.name, self.space, self.lease = name, space, lease
        self._storage, self._study, self._place = storage, study, place
        self._distributions = {name: distribution(axis) for name, axis in space.axes.items()}
        self.entries: dict[str, Entry] = {}  # by the key of the cell, in the order of their first begin
        for trial in storage.get_all_trials(study, deepcopy=False):
            self._read(trial)

    @classmethod
    def open(cls, storage: str | None, name: str, space: Space, *, fresh: bool = False, wait: float = WAIT) -> Record:
        """The record `name` in `storage` (an SQLAlchemy URL, or None for one that is gone with the process)."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        place = _shown(storage)
        with _reaching(place):
            opened = InMemoryStorage() if storage is None else _connected(storage, wait)
            found = {each.study_name: each for each in opened.get_all_studies()}
            if name in found:
                refuse_second_driver(name, _driver(opened, found[name]._study_id)[0])
            if fresh and name in found:
                opened.delete_study(found.pop(name)._study_id)
            before = found[name].user_attrs.get("space") if name in found else None
            now = {"version": VERSION, **space.canonical()}
            if before is not None and (changes := difference(before, now)):
                what = f"study '{name}' was started with another space ({', '.join(changes)})"
                flag = "--study" if space.split.kind == "search" else "--name"
                fix = f"give this one its own name with {flag} NEW, or discard the old record with --fresh"
                raise Co2lError(what, where=space.source, fix=fix)
            maximise = [optuna.study.StudyDirection.MAXIMIZE]
            study = found[name]._study_id if name in found else opened.create_new_study(maximise, name)
            if before is None:
                opened.set_study_user_attr(study, "space", now)
            opened.set_study_user_attr(study, "limits", {"samples": space.samples, "retries": space.retries})
            return cls(opened, study, name, space, place, Lease(name, *_driver(opened, study)))

    def _read(self, trial: FrozenTrial) -> None:
        entry = _entry(trial)
        if entry is None:
            raise Co2lError(f"study '{self.name}' is not a search of ours", where=self._place, fix="use --study NEW")
        if entry.status == "running":  # its driver died: nobody runs it now
            self._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
            entry.status = "pending"
        self.entries[entry.key] = entry

    def begin(self, cell: Cell) -> None:
        """The cell runs from now on."""
        entry = self.entries.get(cell.key)
        with _reaching(self._place):
            if entry is not None and entry.status == "pending":
                self._storage.set_trial_state_values(entry.trial, TrialState.RUNNING)
                entry.status = "running"
                return
            if entry is not None and self.status(cell) != "pending":
                raise ValueError(f"cell {cell.key} is {entry.status} and cannot begin")
            so_far = {} if entry is None else entry.so_far()  # it failed for good, and more retries were allowed since
            template = create_trial(
                state=TrialState.RUNNING,
                params=dict(cell.values),
                distributions=self._distributions,
                user_attrs={"cell": cell.key, "seed": cell.seed, "values": dict(cell.values), "attempts": so_far},
            )
            trial = self._storage.create_new_trial(self._study, template)
        self.entries[cell.key] = Entry(trial, cell.key, dict(cell.values), cell.seed, "running", **so_far)

    def rung(self, cell: Cell, finished_tasks: int, score: float) -> None:
        """The cell's score after so many tasks, for early stopping."""
        entry = self.entries[cell.key]
        if entry.rungs.get(finished_tasks) == score:
            return
        with _reaching(self._place):
            self._storage.set_trial_intermediate_value(entry.trial, finished_tasks, score)
        entry.rungs[finished_tasks] = score

    def finish(
        self, cell: Cell, result: Mapping[str, Any], epochs_trained: int, epochs_reused: int, seconds: float
    ) -> None:
        """The cell has its result, as `Result.as_dict()`."""
        name = self.space.objective.removeprefix("val/")
        score = float(result["score"] if name == "score" else result["average"][name])
        if not math.isfinite(score):
            raise ValueError(f"cell {cell.key} has the score {score}")
        entry = self._spend(cell, epochs_trained, epochs_reused, seconds)
        entry.score, entry.result = score, dict(result)
        self._end(entry, TrialState.COMPLETE, [score])

    def prune(self, cell: Cell, report: Report, seconds: float = 0.0) -> None:
        """The cell was stopped at a rung, by this report."""
        if self.space.objective in report.metrics:
            self.rung(cell, report.task + 1, report.metrics[self.space.objective])
        entry = self._spend(cell, report.epochs_trained, report.epochs_reused, seconds)
        self._end(entry, TrialState.PRUNED)

    def fail(
        self, cell: Cell, reason: str, epochs_trained: int = 0, epochs_reused: int = 0, seconds: float = 0.0
    ) -> bool:
        """One attempt failed. Whether the cell may be tried again; else it has failed for good."""
        entry = self._spend(cell, epochs_trained, epochs_reused, seconds)
        entry.attempts, entry.reason = entry.attempts + 1, reason
        again = entry.attempts <= self.space.retries
        self._end(entry, TrialState.WAITING if again else TrialState.FAIL)
        return again

    def lose(
        self, cell: Cell, epoch: int, epochs_trained: int = 0, epochs_reused: int = 0, seconds: float = 0.0
    ) -> bool:
        """The cell's process or machine was lost after this epoch. Whether the cell may be tried again.

        That is no failure of the cell, as machines come and go. But one that ends its process each time at the same
        point, for want of memory as a rule, would do so for ever.
        """
        entry = self._spend(cell, epochs_trained, epochs_reused, seconds)
        entry.losses = 0 if epoch > entry.furthest else entry.losses + 1
        entry.furthest, entry.reason = max(entry.furthest, epoch), "its process or machine was lost"
        again = entry.losses < LOSSES
        if not again:
            entry.reason += f" {LOSSES} times in a row without a new epoch (too little memory?)"
            entry.attempts, entry.losses = self.space.retries + 1, 0  # it is out of retries, until there are more
        self._end(entry, TrialState.WAITING if again else TrialState.FAIL)
        return again

    def interrupt(self, cell: Cell, epochs_trained: int = 0, epochs_reused: int = 0, seconds: float = 0.0) -> None:
        """The search was stopped, and the cell with it: it is pending again, and this was no failure."""
        self._end(self._spend(cell, epochs_trained, epochs_reused, seconds), TrialState.WAITING)

    def _spend(self, cell: Cell, epochs_trained: int, epochs_reused: int, seconds: float) -> Entry:
        entry = self.entries[cell.key]
        if entry.status != "running":
            raise ValueError(f"cell {cell.key} is {entry.status}, not running")
        entry.epochs_trained += epochs_trained
        entry.epochs_reused += epochs_reused
        entry.seconds += seconds
        return entry

    def _end(self, entry: Entry, state: TrialState, values: list[float] | None = None) -> None:
        with _reaching(self._place):  # the state last: only then does the attempt count as ended
            self._storage.set_trial_user_attr(entry.trial, "attempts", entry.so_far())
            self._storage.set_trial_state_values(entry.trial, state, values)
        entry.status = STATUS[state]

    def status(self, cell: Cell) -> Status:
        entry = self.entries.get(cell.key)
        if entry is None or (entry.status == "failed" and entry.attempts <= self.space.retries):
            return "pending"
        return entry.status

    def finished(self) -> dict[str, Entry]:
        """The cells that have a result, by their key."""
        return {key: entry for key, entry in self.entries.items() if entry.status == "done"}

    def totals(self) -> Totals:
        return totals(self.entries.values())

    def figures(self) -> dict[str, Any]:
        """Optuna's plots as Matplotlib figures by name, without those that so few results cannot fill."""
        return _figures(self._storage, self.name)


class Reader:
    """The studies in a storage as they are, read only: what runs goes on running."""

    def __init__(self, storage: str, wait: float = WAIT) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.place = _shown(storage)
        database = sqlalchemy.make_url(storage).database
        if storage.startswith("sqlite") and not (database and Path(database).is_file()):
            raise no_studies(self.place)
        with _reaching(self.place):
            self._storage = _connected(storage, wait, create=False)

    def studies(self) -> dict[str, dict[str, Any]]:
        """What `Record.open` noted of each of our studies, by name: its space, and its limits."""
        with _reaching(self.place):
            found = {each.study_name: each.user_attrs for each in self._storage.get_all_studies()}
        return {name: noted for name, noted in found.items() if "space" in noted}

    def entries(self, name: str) -> dict[str, Entry]:
        with _reaching(self.place):
            trials = self._storage.get_all_trials(self._storage.get_study_id_from_name(name), deepcopy=False)
        read = (_entry(trial) for trial in trials)
        return {entry.key: entry for entry in read if entry is not None}

    def figures(self, name: str) -> dict[str, Any]:
        with _reaching(self.place):
            return _figures(self._storage, name)

    def importance(self, name: str) -> dict[str, float]:
        """What part of the spread of the scores each axis explains, the largest first; empty for too few results."""
        with _reaching(self.place):
            study = optuna.load_study(study_name=name, storage=self._storage)
        try:
            evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
            return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))
        except (ValueError, RuntimeError, ZeroDivisionError):  # one finished cell, or all with the same score
            return {}


def no_studies(place: str) -> Co2lError:
    fix = "search first with co2l.tune, or check --root and --storage"
    return Co2lError("there are no studies", where=place, fix=fix)


def _entry(trial: FrozenTrial) -> Entry | None:
    """What a trial says of its cell, if it is one of ours."""
    attrs = trial.user_attrs
    if "cell" not in attrs:
        return None
    entry = Entry(
        trial._trial_id, attrs["cell"], attrs["values"], attrs["seed"], STATUS[trial.state], **attrs["attempts"]
    )
    entry.score, entry.rungs = trial.value, dict(trial.intermediate_values)
    return entry


def _figures(storage: BaseStorage, name: str) -> dict[str, Any]:
    import matplotlib  # only here: drawing is the end of a search, and takes long to load

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from optuna.visualization import matplotlib as plots

    study = optuna.load_study(study_name=name, storage=storage)
    if len(study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])) < 2:
        return {}
    drawn: dict[str, Any] = {}
    kinds: dict[str, Callable[[optuna.Study], Any]] = {
        "importance": plots.plot_param_importances,
        "parallel_coordinate": plots.plot_parallel_coordinate,
        "history": plots.plot_optimization_history,
    }
    for kind, plot in kinds.items():
        with warnings.catch_warnings(), contextlib.suppress(ValueError, RuntimeError, ZeroDivisionError):
            warnings.simplefilter("ignore")
            drawn[kind] = plot(study).figure
            drawn[kind].set_layout_engine("tight")  # else long names of settings are cut off
    pyplot.close("all")  # the figures live on; pyplot's own list of them would only grow
    return drawn


def distribution(axis: tuple[Value, ...] | Range) -> BaseDistribution:
    if isinstance(axis, Range):
        if isinstance(axis.low, int):
            return IntDistribution(axis.low, int(axis.high), log=axis.log)
        return FloatDistribution(axis.low, axis.high, log=axis.log)
    return CategoricalDistribution(axis)


def _driver(storage: BaseStorage, study: int) -> tuple[Read, Write]:
    """How the study's driver is read and written."""
    return (
        lambda: storage.get_study_user_attrs(study).get("driver"),
        lambda driver: storage.set_study_user_attr(study, "driver", driver),
    )


def _connected(url: str, wait: float, *, create: bool = True) -> RDBStorage:
    """With a bounded wait, in each database's own words; without `create`, the tables must be there."""
    if not url.startswith("sqlite"):
        limit = {"connect_timeout": max(1, round(wait))} if url.startswith(("postgresql", "mysql")) else {}
        if url.startswith("postgresql://"):  # for which SQLAlchemy would want the driver before the present one
            url = url.replace("postgresql", "postgresql+psycopg", 1)
        return RDBStorage(url, {"connect_args": limit, "pool_pre_ping": True}, skip_table_creation=not create)
    storage = RDBStorage(url, {"connect_args": {"timeout": wait}}, skip_table_creation=not create)

    @sqlalchemy.event.listens_for(storage.engine, "connect")
    def _quick(connection: Any, _: Any) -> None:
        # a write need not wait for the disk: a killed process loses nothing by it, a power cut the last cells
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    storage.remove_session()
    storage.engine.dispose()  # the next connection is a quick one
    return storage


def _shown(url: str | None) -> str:
    """The URL without its password."""
    try:
        return "memory" if url is None else sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        raise Co2lError(
            f"'{url}' is not the URL of a database",
            where="--storage",
            fix="write for example sqlite:///runs/study.db or postgresql://user@host/database",
        ) from None


@contextlib.contextmanager
def _reaching(place: str) -> Iterator[None]:
    """What goes wrong with a database becomes one line; what was stored before stays."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ImportError) as error:
        told = isinstance(error, (optuna.exceptions.OptunaError, ImportError))  # in Optuna's words
        cause = error.__cause__ or error if told else error
        reason = str(getattr(cause, "orig", None) or cause).strip().splitlines()[0]
        if "locked" in reason:
            fix = "another process writes to it: wait for that one to end, or give another --storage"
        elif isinstance(error, ImportError):
            fix = f"install the driver of that database; for PostgreSQL: {CLUSTER_EXTRA}"
        else:
            fix = "check that the database runs and --storage is right; the same command then continues"
        raise Co2lError(f"the storage cannot be used ({reason})", where=place, fix=fix) from None
