"""Studies after their searches: renamed everywhere they left something."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from co2l.names import check_name
from co2l.search.record import upkeep as record
from co2l.search.record.lease import driving
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
    space, spool = StudyReader(where.storage).study(old).space, where.root / "spool"
    StudyRuns(where.tracking_uri, old).rename(new)
    moved = {
        where.selected(old): where.selected(new),
        where.logs(old): where.logs(new),
        spool_file(where.tracking_uri, old, space, spool): spool_file(where.tracking_uri, new, space, spool),
    }
    for before, after in moved.items():
        if before.exists():
            before.rename(after)
    record.rename(where.storage, old, new)
