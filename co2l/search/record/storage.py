"""The database behind the record: how Optuna's storage is reached, and how our words map to Optuna's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from co2l.errors import Co2lError, headline, without_passwords
from co2l.search.record.entries import Entry, Status
from co2l.search.record.locks import alone, location
from co2l.search.space.document import Range, Value
from co2l.search.space.space import Space
from co2l.shipped import install_command
from co2l.urls import database_url, sqlite_file

EARLIER = "earlier"  # the note with a study of what it took from another
PAUSED = "paused"  # the note with a trial that waits since it was paused
WAIT = 10.0  # seconds for a storage that is locked or does not answer
OPTUNA_STATE: dict[Status, TrialState] = {
    "paused": TrialState.WAITING,  # with a note, as Optuna has no word for it
    "pending": TrialState.WAITING,
    "running": TrialState.RUNNING,
    "done": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_REWRITE = sqlalchemy.text(
    "UPDATE trial_params SET distribution_json = :json WHERE param_name = :name"
    " AND trial_id IN (SELECT trial_id FROM trials WHERE study_id = :study)"
)
_STATUS = {state: status for status, state in OPTUNA_STATE.items()}


def connect(url: str | None, wait: float = WAIT) -> BaseStorage:
    """The storage at an SQLAlchemy URL, made if it is not there; None for one that is gone with the process."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url is None:
        return InMemoryStorage()
    with alone(url, wait):
        return _connected(url, wait)


def connect_to_read(url: str, wait: float = WAIT) -> BaseStorage:
    """The same, where nothing is made."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if url.startswith("sqlite") and not ((file := sqlite_file(url)) and file.is_file()):
        raise no_studies(shown(url))
    with reaching(shown(url)):
        return _connected(url, wait, create=False)


def no_studies(url: str) -> Co2lError:
    fix = "search first with co2l.tune, or check --root and --storage"
    return Co2lError("there are no studies", where=url, fix=fix)


def entry_of(frozen: FrozenTrial) -> Entry | None:
    """What the record noted with an Optuna trial, if it is one of ours."""
    attrs = frozen.user_attrs
    if "trial" not in attrs:
        return None
    entry = Entry(attrs["trial"], attrs["values"], attrs["seed"], _STATUS[frozen.state])
    entry.score, entry.rungs = frozen.value, dict(frozen.intermediate_values)
    so_far = dict(attrs["so_far"])
    if so_far.pop(PAUSED, False) and entry.status == "pending":
        entry.status = "paused"
    return entry.continued(so_far)


def distribution(axis: tuple[Value, ...] | Range) -> BaseDistribution:
    """An axis in Optuna's terms."""
    if isinstance(axis, Range):
        if isinstance(axis.low, int):
            return IntDistribution(axis.low, int(axis.high), log=axis.log)
        return FloatDistribution(axis.low, axis.high, log=axis.log)
    return CategoricalDistribution(axis)


def widened(
    storage: BaseStorage, study: int, trials: Sequence[FrozenTrial], name: str, axis: tuple[Value, ...] | Range
) -> BaseDistribution:
    """An axis in Optuna's terms, with all values that its trials know; values that are new follow the others.

    Optuna does not let a list change, so those of the study's trials are rewritten: a value is stored by its index in
    the list, which stays the same.
    """
    now, before = distribution(axis), next((each.distributions[name] for each in trials if name in each.params), None)
    if not isinstance(now, CategoricalDistribution) or not isinstance(before, CategoricalDistribution):
        return now
    if new := tuple(value for value in now.choices if value not in before.choices):
        before = CategoricalDistribution((*before.choices, *new))
        assert isinstance(storage, RDBStorage)  # one in memory is gone before its space can grow
        with storage.engine.begin() as connection:
            connection.execute(_REWRITE, {"json": distribution_to_json(before), "name": name, "study": study})
    return before


def optuna_study(space: Space, entries: Iterable[Entry], axes: Sequence[str]) -> optuna.Study:
    """Results as a study in memory, with some axes as its parameters, for what Optuna computes from one."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    distributions = {name: distribution(space.axes[name]) for name in axes}
    for entry in entries:
        params = {name: entry.values[name] for name in axes}
        study.add_trial(create_trial(params=params, distributions=distributions, value=entry.score))
    return study


def _connected(url: str, wait: float, *, create: bool = True) -> RDBStorage:
    """With a bounded wait, in each database's own terms; without `create`, the tables must be there."""
    if not isinstance(where := location(url), Path):
        settings = {"connect_args": {"connect_timeout": max(1, round(wait))}, "pool_pre_ping": True}
        return RDBStorage(where.render_as_string(hide_password=False), settings, skip_table_creation=not create)
    storage = RDBStorage(url, {"connect_args": {"timeout": wait}}, skip_table_creation=not create)

    @sqlalchemy.event.listens_for(storage.engine, "connect")
    def _quick(connection: Any, _: Any) -> None:
        # a write need not wait for the disk: a killed process loses nothing by it, a power cut the last trials
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    storage.remove_session()
    storage.engine.dispose()  # the next connection is a quick one
    return storage


def shown(url: str | None) -> str:
    """The URL without its password."""
    if url is None:
        return "memory"
    return without_passwords(database_url(url, "--storage").render_as_string(hide_password=True))


@contextlib.contextmanager
def reaching(url: str) -> Iterator[None]:
    """Inside, whatever goes wrong with the database becomes one line; what was stored before stays."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ImportError) as error:
        rephrased = isinstance(error, (optuna.exceptions.OptunaError, ImportError))  # the cause is in our terms
        cause = error.__cause__ or error if rephrased else error
        reason = headline(getattr(cause, "orig", None) or cause)
        if "locked" in reason:
            fix = "another process writes to it: wait for that one to end, or give another --storage"
        elif "disk is full" in reason:
            fix = "free space there; the same command then continues"
        elif isinstance(error, ImportError):
            fix = f"install the driver of that database; for PostgreSQL: {install_command('cluster')}"
        else:
            fix = "check that the database runs and --storage is right; the same command then continues"
        raise Co2lError(f"the storage cannot be used ({reason})", where=url, fix=fix) from None
