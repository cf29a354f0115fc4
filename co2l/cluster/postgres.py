"""A Postgres of one's own in a folder: no port, only a socket that this user alone can reach, so no password."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import sqlalchemy

from co2l.errors import Co2lError

USER = "co2l"


def start(folder: Path) -> None:
    """Create the server's files if there are none, and start it if it does not run."""
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
    return f"postgresql+psycopg://{USER}@/{database}?host={folder}"


def ensure_database(database_url: str) -> None:
    """Create the database that the URL names, if its server has none of that name."""
    wanted = sqlalchemy.make_url(database_url)
    engine = sqlalchemy.create_engine(wanted.set(database="postgres"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            names = connection.execute(sqlalchemy.text("select datname from pg_database")).scalars().all()
            if wanted.database not in names:
                connection.execute(sqlalchemy.text(f'create database "{wanted.database}"'))
    except (sqlalchemy.exc.OperationalError, ImportError) as error:
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        raise Co2lError(
            f"Postgres cannot be used ({reason})",
            where=wanted.render_as_string(hide_password=True),
            fix="check that it runs, and its user and password",
        ) from None
    finally:
        engine.dispose()


def _programs() -> Path:
    """Debian keeps them outside the path, by version."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[-3]))
    found = versions[-1] if versions else shutil.which("pg_ctl")
    if found is None:
        raise Co2lError("Postgres is not installed", fix="install the package postgresql, or use the image")
    return Path(found).parent


def _run(*command: object, accept: tuple[int, ...] = ()) -> int:
    words = [str(word) for word in command]
    if os.geteuid() == 0:
        words = ["runuser", "-u", "postgres", "--", *words]
    # not into pipes: the server would keep them open, and we would wait for their end
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", check=False)
    if done.returncode not in (0, *accept):
        raise Co2lError(f"{Path(str(command[0])).name} failed", where=" ".join(words), fix="run it to see why")
    return done.returncode
