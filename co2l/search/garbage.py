"""What a store holds, and what of it nobody needs any more.

Needed is what a trial of any study may read, in the record that is given and in every record that has claimed the
store, and what single runs have claimed. A record that cannot be read is an error, never an empty one. The store is
listed before the records are read, so that nothing new is mistaken for old. A search that begins later may have
wanted what is deleted; the store then answers as if it had never been there, and the stage is trained again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.config import RunConfig
from co2l.learning.methods import configure
from co2l.learning.store import Store, StoredFile
from co2l.search.record.reachable import Reachable, keys_of, reachable
from co2l.search.record.reader import StoredStudy, StudyReader
from co2l.search.record.storage import shown
from co2l.urls import sqlite_file, sqlite_url

RUNS = "runs"  # how single runs are called where claims are to be forgotten


@dataclass(frozen=True)
class Inventory:
    held: list[StoredFile]
    garbage: list[StoredFile]
    young: int  # files that nobody needs but that were written too recently to be sure
    studies: int
    runs: int
    records: list[str]  # where the studies are


def inventory(store: Store, storage: str, *, forget: Collection[str] = (), min_age: timedelta) -> Inventory:
    """What the store holds and what is unreachable. `forget` names records, or `runs`, whose claims do not count."""
    held = list(store.contents())
    records = [storage, *_records(store, storage, forget)]
    studies = [study for record in records for study in _studies(record)]
    runs = [] if RUNS in forget else list(_runs(store))
    needed = reachable(studies)
    for config in runs:
        needed.keys.update(keys_of(config))
    unneeded = [file for file in held if file.is_ours and not needed.needs(file)]
    limit = datetime.now(UTC) - min_age
    garbage = [file for file in unneeded if file.modified <= limit]
    young = len(unneeded) - len(garbage)
    return Inventory(held, garbage, young, len(studies), len(runs), [shown(record) for record in records])


def needed_by_others(store: Store, storage: str, study: str) -> Reachable:
    """What everyone but one study needs of the store."""
    others = [each for each in _studies(storage) if each.name != study]
    others += [each for record in _records(store, storage, ()) for each in _studies(record)]
    found = reachable(others)
    for config in _runs(store):
        found.keys.update(keys_of(config))
    return found


def claim_of(store: Store, storage: str) -> dict[str, Any]:
    """How a record claims the store: by where it is, seen from the store if both may be moved together."""
    if (file := sqlite_file(storage)) and store.is_local:
        return {"record": os.path.relpath(file, store.root)}
    return {"record": shown(storage)}


def _records(store: Store, storage: str, forget: Collection[str]) -> Iterator[str]:
    """The other records that claim the store."""
    for claim in store.claims():
        if (text := claim.get("record")) is not None:
            if "://" not in text:
                text = sqlite_url(Path(os.path.normpath(Path(store.root, text))))
            known = {text, str(sqlite_file(text) or text)}
            if shown(text) != shown(storage) and not known & set(forget):
                yield text


def _studies(record: str) -> list[StoredStudy]:
    try:
        reader = StudyReader(record)
        return [reader.study(name) for name in reader.names()]
    except Co2lError:
        if (file := sqlite_file(record)) and not file.is_file():
            fix = f"if it is gone for good, add --forget {file}"
            raise Co2lError("claims this store and is not there", where=str(file), fix=fix) from None
        raise


def _runs(store: Store) -> Iterator[RunConfig]:
    for claim in store.claims():
        if (run := claim.get("run")) is not None:
            try:
                split = Split(**run["split"])
                settings, until = run["settings"], run.get("until")
                yield configure(run["benchmark"], run["method"], settings, seed=run["seed"], split=split, until=until)
            except Co2lError as error:
                fix = f"use the version that made it, or add --forget {RUNS} to keep nothing for single runs"
                raise Co2lError(
                    f"a run that claims it cannot be read ({error.what})", where=store.root, fix=fix
                ) from None
