"""The locks beside a record: files that a process has locked beside SQLite, locks of its session in PostgreSQL.

Whoever ends, however it ends, has given its locks back: the operating system or the database sees to that. A machine
that is gone without a word is missed by PostgreSQL after `GONE_SECONDS`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import sqlalchemy
from sqlalchemy import Connection, text

from co2l.errors import Co2lError
from co2l.urls import DATABASE, database_url

GONE_SECONDS = 15  # without an answer from the machine of a session, until PostgreSQL ends it
PROBES = 4  # of the network within them
TABLE = "create table if not exists co2l_drivers (study text primary key, driver text not null)"
NOTE = "insert into co2l_drivers values (:study, :driver) on conflict (study) do update set driver = :driver"
NOTED = "select driver from co2l_drivers where study = :study"


class DriverLock(Protocol):
    """The lock of one study, with a note of who took it last."""

    def take(self, driver: str) -> str:
        """Who holds it now: `driver`, unless another has it; decided at once. To be called `alone`."""
        ...

    def keep(self, driver: str) -> str:
        """Who holds it now, where `driver` did; a lock that was lost with its connection is taken again."""
        ...

    def release(self) -> None: ...


def driver_lock(url: str, study: str) -> DriverLock:
    where = location(url)
    return FileLock(where, study) if isinstance(where, Path) else SessionLock(where, study)


@contextlib.contextmanager
def alone(url: str, wait: float) -> Iterator[None]:
    """Inside, no other process opens the same database: of two that make its tables one would fail."""
    where = location(url)
    if isinstance(where, Path):
        with _locked(_beside(where, "opening"), wait):
            yield
        return
    with _session(where) as session:
        session.execute(text(f"set lock_timeout = '{1000 * wait:.0f}ms'"))
        session.execute(text("select pg_advisory_lock(:key)"), {"key": _number("opening")})
        yield


def location(url: str) -> Path | sqlalchemy.URL:
    """SQLite's file, or how SQLAlchemy reaches a PostgreSQL server."""
    parsed = database_url(url, "--storage")
    if parsed.get_backend_name() == "sqlite" and not (parsed.database or ":").startswith((":", "file:")):
        return Path(str(parsed.database)).resolve()
    if parsed.drivername == "postgresql":  # for which SQLAlchemy would want the driver before the present one
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "postgresql":
        return parsed
    raise Co2lError(
        f"'{parsed.drivername}' is no database that can hold a record",
        where="--storage",
        fix=f"write for example {DATABASE}",
    )


class FileLock:
    """A file beside SQLite's. It is locked as long as this process has it open."""

    def __init__(self, database: Path, study: str) -> None:
        self._path, self._file = _beside(database, hashlib.sha256(study.encode()).hexdigest()[:16]), -1

    def take(self, driver: str) -> str:
        file = _opened(self._path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with os.fdopen(file) as noted:
                return noted.read()
        os.ftruncate(file, 0)
        os.write(file, driver.encode())
        self._file = file
        return driver

    def keep(self, driver: str) -> str:
        return driver  # the system takes it from no living process

    def release(self) -> None:
        os.close(self._file)


class SessionLock:
    """An advisory lock of PostgreSQL, held by a connection that is open for nothing else."""

    def __init__(self, url: sqlalchemy.URL, study: str) -> None:
        self._url, self._study, self._held = url, study, contextlib.ExitStack()

    def take(self, driver: str) -> str:
        with contextlib.ExitStack() as opened:
            session = opened.enter_context(_session(self._url))
            session.execute(text(TABLE))
            if not self._locks(session):
                return self._noted(session)
            session.execute(text(NOTE), {"study": self._study, "driver": driver})
            self._session, self._held = session, opened.pop_all()
        return driver

    def keep(self, driver: str) -> str:
        try:
            self._session.execute(text("select 1"))
            return driver
        except sqlalchemy.exc.SQLAlchemyError:  # the connection is lost, and the lock with it, sooner or later
            with contextlib.ExitStack() as opened:
                session = opened.enter_context(_session(self._url))
                noted = self._noted(session)
                if noted == driver and self._locks(session):
                    self.release()
                    self._session, self._held = session, opened.pop_all()
                return noted

    def _locks(self, session: Connection) -> bool:
        asked = session.execute(text("select pg_try_advisory_lock(:key)"), {"key": _number(f"study {self._study}")})
        return bool(asked.scalar_one())

    def _noted(self, session: Connection) -> str:
        return str(session.execute(text(NOTED), {"study": self._study}).scalar_one())

    def release(self) -> None:
        self._held.close()


def _beside(database: Path, name: str) -> Path:
    return database.with_name(f"{database.name}.locks") / name


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        what, fix = f"the storage cannot be used ({error.strerror})", "check --root and --storage"
        raise Co2lError(what, where=str(path.parent), fix=fix) from None


@contextlib.contextmanager
def _locked(path: Path, wait: float) -> Iterator[None]:
    file, end = _opened(path), time.monotonic() + wait
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:  # others have it for a moment, unless one was stopped in it
                    what, fix = "another process is opening this database and does not go on", "end or continue it"
                    raise Co2lError(what, where=str(path.parent), fix=fix) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def _session(url: sqlalchemy.URL) -> Iterator[Connection]:
    """A connection that PostgreSQL ends soon after its machine is gone; its own settings would wait for hours."""
    engine = sqlalchemy.create_engine(
        url,
        poolclass=sqlalchemy.NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": GONE_SECONDS},
    )
    with engine.connect() as session:
        for name in ("tcp_keepalives_idle", "tcp_keepalives_interval"):
            session.execute(text(f"set {name} = {GONE_SECONDS // (PROBES + 1)}"))
        session.execute(text(f"set tcp_keepalives_count = {PROBES}"))
        session.execute(text(f"set tcp_user_timeout = {1000 * GONE_SECONDS}"))
        yield session


def _number(name: str) -> int:
    """The name of a lock as PostgreSQL wants it, in 64 bits."""
    return int.from_bytes(hashlib.sha256(f"co2l {name}".encode()).digest()[:8], signed=True)
