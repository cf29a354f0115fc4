"""A study's record, renamed or deleted by the process that holds its lease."""

from __future__ import annotations

from sqlalchemy import text

from co2l.errors import Co2lError, unknown
from co2l.search.record.storage import connect, no_studies, reaching, shown

RENAME = text("update studies set study_name = :new where study_name = :old")  # Optuna has no call for it


def names(storage: str) -> list[str]:
    """All studies in the storage, even those that this version cannot read."""
    with reaching(shown(storage)):
        return [each.study_name for each in connect(storage).get_all_studies()]


def check_known(storage: str, study: str) -> None:
    """An error with the closest name if there is no such study."""
    known = names(storage)
    if not known:
        raise no_studies(shown(storage))
    if study not in known:
        raise unknown("study", study, known, where=shown(storage))


def check_free(storage: str, study: str) -> None:
    if study in names(storage):
        raise Co2lError(f"there is a study '{study}' already", where=shown(storage), fix="give another name")


def rename(storage: str, old: str, new: str) -> None:
    check_known(storage, old)
    check_free(storage, new)
    with reaching(shown(storage)):
        opened = connect(storage)
        engine = getattr(opened, "engine")  # noqa: B009  a storage at a URL is a database
        with engine.begin() as connection:
            connection.execute(RENAME, {"old": old, "new": new})


def delete(storage: str, study: str) -> None:
    check_known(storage, study)
    with reaching(shown(storage)):
        opened = connect(storage)
        opened.delete_study(opened.get_study_id_from_name(study))
