"""A private Postgres in a folder: no port, only a socket that nobody but this user can reach, so no password."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import sqlalchemy

from co2l import urls
from co2l.errors import Co2lError, headline, without_passwords

USER = "co2l"


def start(folder: Path) -> None:
    """Create the server's files if there are none, and start it unless it is running."""
    data, programs = folder / "data", _programs()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if os.geteuid() == 0:  # Postgres refuses to run as root
        shutil.chown(folder, "postgres")
    if not (data / "PG_VERSION").is_file():
        _run(programs / "initdb", "-D", data, "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C")
    if _run(programs / "pg_ctl", "status", "-D", data, accept=(3,)) != 0:
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c unix_socket_permissions=0700"
        _run(programs / "pg_ctl", "start", "-w", "-D", data, "-l", folder / "log", "-o", options)


def url(folder: Path, database: str) -> str:
    return sqlalchemy.URL.create(
        "postgresql+psycopg", username=USER, database=database, query={"host": str(folder)}
    ).render_as_string(hide_password=False)


def ensure_database(database_url: str) -> None:
    """Create the database that the URL names, unless it exists."""
    wanted = urls.database_url(database_url, "the database of MLflow")
    engine = sqlalchemy.create_engine(wanted.set(database="postgres"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            names = connection.execute(sqlalchemy.text("select datname from pg_database")).scalars().all()
            if wanted.database not in names:
                connection.execute(sqlalchemy.text(f'create database "{wanted.database}"'))
    except (sqlalchemy.exc.OperationalError, ImportError) as error:
        reason = headline(getattr(error, "orig", error))
        raise Co2lError(
            f"Postgres cannot be used ({reason})",
            where=without_passwords(wanted.render_as_string(hide_password=True)),
            fix="check that it is running, and its user and password",
        ) from None
    finally:
        engine.dispose()


def _programs() -> Path:
    """Where Postgres' programs are: Debian installs them outside the path, by version."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[-3]))
    found = versions[-1] if versions else shutil.which("pg_ctl")
    if found is None:
        raise Co2lError("Postgres is not installed", fix="install the package postgresql, or use the image")
    return Path(found).parent


def _run(*command: object, accept: tuple[int, ...] = ()) -> int:
    words = [str(word) for word in command]
    if os.geteuid() == 0:
        words = ["runuser", "-u", "postgres", "--", *words]
    # no pipes: the server would hold them open, and we would wait for it to exit
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", check=False)
    if done.returncode not in (0, *accept):
        raise Co2lError(f"{Path(str(command[0])).name} failed", where=" ".join(words), fix="run it to see why")
    return done.returncode
