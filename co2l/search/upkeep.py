"""Studies after their searches: renamed or removed everywhere they left something."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from co2l.errors import Co2lError
from co2l.learning.store import Store, StoredFile
from co2l.names import check_name
from co2l.search.garbage import needed_by_others
from co2l.search.record import upkeep as record
from co2l.search.record.lease import driving
from co2l.search.record.reachable import reachable
from co2l.search.record.reader import StudyReader
from co2l.search.tracking import spool_file
from co2l.search.tracking.upkeep import StudyRuns

TESTED = ".test"  # ends the name of the evaluation of what a study selected


@dataclass(frozen=True)
class Locations:
    """Where studies leave something: a root, and what may be elsewhere."""

    root: Path
    store: str
    storage: str
    tracking_uri: str

    def selected(self, study: str) -> Path:
        return self.root / "selected" / f"{study}.yaml"

    def logs(self, study: str) -> Path:
        return self.root / "logs" / study


def rename(where: Locations, old: str, new: str) -> list[str]:
    """Rename a study, and the evaluation of what it selected, if there is one; returns their new names.

    MLflow first and the record last: if it is interrupted, the same call again completes it.
    """
    check_name(new, "the study's new name")
    record.check_known(where.storage, old)
    renamed = {old: new}
    if f"{old}{TESTED}" in record.names(where.storage):
        renamed[f"{old}{TESTED}"] = f"{new}{TESTED}"
    with ExitStack() as held:
        for name in (*renamed, *renamed.values()):
            held.enter_context(driving(where.storage, name))
        for before, after in renamed.items():
            _rename(where, before, after)
    return list(renamed.values())


def _rename(where: Locations, old: str, new: str) -> None:
    record.check_free(where.storage, new)
    identity, spool = StudyReader(where.storage).study(old).identity, where.root / "spool"
    StudyRuns(where.tracking_uri, old).rename(new)
    moved = {
        where.selected(old): where.selected(new),
        where.logs(old): where.logs(new),
        spool_file(where.tracking_uri, old, identity, spool): spool_file(where.tracking_uri, new, identity, spool),
    }
    for before, after in moved.items():
        if before.exists():
            before.rename(after)
    record.rename(where.storage, old, new)


@dataclass(frozen=True)
class Removal:
    """What goes with a study."""

    study: str
    trials: int
    runs: int  # in MLflow
    models: list[str]  # registered ones that are stored in these runs
    states: int  # files in the store
    bytes: int
    kept: str  # why states are left in the store, if so


def removal(where: Locations, study: str, *, models: bool) -> Removal:
    """What `remove` would delete; an error if it would refuse."""
    record.check_known(where.storage, study)
    with driving(where.storage, study):
        return _planned(where, study, models=models)[0]


def remove(where: Locations, study: str, *, models: bool = False) -> Removal:
    """Delete a study, its runs and files, and the states that nothing else needs; `models` in its runs too.

    The record is last but for the states: if it is interrupted, the same call again completes it, and `co2l gc` finds
    states that are left.
    """
    record.check_known(where.storage, study)
    store = Store(where.store)  # one that cannot be opened is told of before anything is deleted
    with driving(where.storage, study):
        planned, states = _planned(where, study, models=models)
        StudyRuns(where.tracking_uri, study).delete()
        for path in _files(where, study):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        record.delete(where.storage, study)
        for file in states:
            store.remove(file)
    return planned


def _planned(where: Locations, study: str, *, models: bool) -> tuple[Removal, list[StoredFile]]:
    runs = StudyRuns(where.tracking_uri, study)
    registered = [str(model) for model in runs.models()]
    if registered and not models:
        what, fix = f"its runs hold the registered model {registered[0]}", "add --models to delete it too"
        raise Co2lError(what, where=f"study '{study}'", fix=fix)
    states, kept, trials = [], "", 0
    try:
        stored = StudyReader(where.storage).study(study)
        trials = len(stored.entries)
        store = Store(where.store)
        held = list(store.contents())
        own, others = reachable([stored]), needed_by_others(store, where.storage, study)
        states = [file for file in held if file.is_ours and own.needs(file) and not others.needs(file)]
    except Co2lError as error:  # nobody knows what it needs, or what others do
        kept = str(error)
    size = sum(file.size for file in states)
    return Removal(study, trials, len(runs), registered, len(states), size, kept), states


def _files(where: Locations, study: str) -> list[Path]:
    found = [where.selected(study), where.logs(study)]
    with suppress(Co2lError):  # of one that cannot be read the file's name is unknown
        identity = StudyReader(where.storage).study(study).identity
        found.append(spool_file(where.tracking_uri, study, identity, where.root / "spool"))
    return [path for path in found if path.exists()]
