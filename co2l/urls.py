"""URLs of databases: made from files and taken apart by SQLAlchemy, checked before anything is done with them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy

from co2l.errors import Co2lError, url_shown

TRACKING = re.compile(r"(https?|sqlite|postgresql|mysql|mssql|file|databricks)(\+\w+)?:")
DATABASE = "sqlite:///runs/study.db or postgresql://user@host/database"
PASSWORD = "write %2F for /, %3F for ?, %23 for #, %40 for @ in a password, or set PGPASSWORD"


def sqlite_url(file: Path) -> str:
    """The URL of a file whose path may hold any character."""
    return sqlalchemy.URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)


def sqlite_file(url: str) -> Path | None:
    """The file of a URL of SQLite; None for other URLs, and for a database in memory."""
    if not url.startswith("sqlite:"):
        return None
    database = database_url(url, "").database
    return Path(database).absolute() if database and database != ":memory:" else None


def check_tracking_uri(uri: str) -> None:
    """MLflow takes anything else for a folder, and makes it."""
    where, fix = "--tracking-uri", "write for example http://127.0.0.1:5000 or sqlite:///runs/mlflow.db"
    if not TRACKING.match(uri):
        raise Co2lError(f"'{url_shown(uri)}' is no address of MLflow", where=where, fix=fix)
    if uri.startswith(("file:", "databricks")):
        return
    if not uri.startswith("http"):
        database_url(uri, where)
        return
    try:
        parts = urlsplit(uri)
        valid = parts.hostname and (parts.port or 1) and not re.search(r"\s", uri)
    except ValueError:
        valid = False
    if not valid or "@" in parts.path + parts.query + parts.fragment:
        raise Co2lError(f"'{url_shown(uri)}' is no address of a server", where=where, fix=fix)


def database_url(url: str, where: str) -> sqlalchemy.URL:
    """The parts of a database's URL."""
    userinfo = re.match(r"[\w+]+://(.*)@", url)
    if userinfo and not url.startswith("sqlite:") and re.search(r"[/?#@\s]", userinfo[1]):
        raise Co2lError(f"'{url_shown(url)}' has a password that ends too early", where=where, fix=PASSWORD)
    try:
        parts = sqlalchemy.make_url(url)
        if parts.port is not None and not 0 < parts.port < 2**16:
            raise ValueError
        if parts.query and parts.get_backend_name() == "sqlite":  # whose driver takes some of them for itself
            raise ValueError
        return parts
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the second for a port that is none
        fix = f"write for example {DATABASE}"
        raise Co2lError(f"'{url_shown(url)}' is not the URL of a database", where=where, fix=fix) from None
