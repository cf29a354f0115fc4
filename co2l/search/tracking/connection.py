"""The connection to MLflow: a client that asks once, and the SQLite file behind it, if it is one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from co2l.errors import Co2lError, url_shown
from co2l.loading import loading
from co2l.search.running.private_folder import private_folder
from co2l.search.tracking.relocation import artifacts_beside, relocate
from co2l.urls import sqlite_file, sqlite_url

if TYPE_CHECKING:  # it takes seconds to import, which the background thread does
    from mlflow import MlflowClient

REQUEST_SECONDS, LOCK_SECONDS = 10, 5


def connect(uri: str) -> MlflowClient:
    """A client that asks once: MLflow's own repetitions would create a second run when a reply is lost."""
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(REQUEST_SECONDS))
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # the driver's progress is there
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")  # we report what goes wrong, once
    with loading():
        from mlflow import MlflowClient

    if uri.startswith("sqlite:") and _is_new(database := database_of(uri)):
        with private_folder() as folder:  # a driver killed here leaves no half database
            MlflowClient(sqlite_url(folder.path / "new.db")).search_experiments(max_results=1)
            copy = database.with_name(f".{database.name}-{os.getpid()}")
            shutil.copyfile(folder.path / "new.db", copy)
        copy.replace(database) if _is_new(database) else copy.unlink()
    if uri.startswith("sqlite:"):
        relocate(database_of(uri), LOCK_SECONDS)
    if "%" in uri:  # by the plain name MLflow would make a folder that is called as the path is written in the URL
        uri = uri.replace("sqlite:", "sqlite+pysqlite:", 1)
    return MlflowClient(uri)


def artifacts_of(uri: str) -> str | None:
    """Where a new experiment has its artifacts; a server says so itself."""
    return artifacts_beside(database_of(uri)) if uri.startswith("sqlite:") else None


def database_of(uri: str) -> Path:
    if (file := sqlite_file(uri)) is None:
        raise Co2lError(
            f"'{url_shown(uri)}' names no file",
            where="--tracking-uri",
            fix="write for example sqlite:///runs/mlflow.db",
        )
    return file


def _is_new(database: Path) -> bool:
    return not database.exists() or database.stat().st_size == 0


def check(database: Path) -> bool:
    """Whether the database is still to be made; an error if it cannot be written (MLflow would wait for minutes)."""
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        if _is_new(database):
            database.touch()
            return True
        connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        fix = "end what holds it" if "locked" in str(error) else "give another file with --tracking-uri"
        raise Co2lError(f"the tracking database cannot be used ({error})", where=str(database), fix=fix) from None
    return False
