"""A root whose databases are on this machine's disk while it is used, and copied to a network file system meanwhile.

SQLite's locks do not hold on many network file systems. So only copies are there, each whole and consistent; the
databases that are written to are on the disk of the node that drives the search. After a crash the next driver begins
from the last copy: what it does not know of is in the store, and is not trained again.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from co2l.errors import Co2lError
from co2l.files import open_atomic, write_atomic
from co2l.search.tracking.relocation import relocate

EVERY_SECONDS = 30.0  # between copies, and nineteen times as long as the last one took
RECORD, TRACKING = "study.db", "mlflow.db"
ARTIFACTS = "artifacts"  # large, never locked: written straight to the shared root
SMALL = ("selected", "spool")  # folders of small files
TRACKED_LATER_SECONDS = 2.0  # until what the record knew at its copy has reached tracking too
LOCK_SECONDS = 5.0  # for a copy that nobody else opens
CLAIM = "driver.json"
BEAT_SECONDS, SILENCE_SECONDS, LOOK_SECONDS = 5.0, 20.0, 0.5


@contextlib.contextmanager
def mirrored(shared: Path, local: Path) -> Iterator[None]:
    """Inside, `local` is the root to work in, by this process alone; what it holds is copied to `shared`."""
    shared.mkdir(parents=True, exist_ok=True)
    claim = Claim(shared / CLAIM)
    claim.take()
    mirror = Mirror(shared, local)
    mirror.fetch()
    ended = threading.Event()
    threads = [
        threading.Thread(target=each, args=(ended,), daemon=True) for each in (claim.keep, mirror.copy_now_and_then)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        mirror.copy()
        claim.release()


@dataclass
class Mirror:
    shared: Path
    local: Path
    _copied: dict[str, tuple[int, ...]] = field(default_factory=dict)  # what a file was like at its last copy

    def fetch(self) -> None:
        """Begin with what the last one left. Tracking brings its artifacts' addresses in line when it is opened."""
        self.local.mkdir(parents=True, exist_ok=True)
        (self.shared / ARTIFACTS).mkdir(exist_ok=True)
        (self.local / ARTIFACTS).symlink_to(self.shared / ARTIFACTS)
        for name in (RECORD, TRACKING):
            for ending in ("", "-wal"):  # the latter from a search that wrote there itself, and was killed
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(self.shared / f"{name}{ending}", self.local / f"{name}{ending}")
        for name in SMALL:
            if (self.shared / name).is_dir():
                shutil.copytree(self.shared / name, self.local / name)

    def copy_now_and_then(self, ended: threading.Event) -> None:
        pause = EVERY_SECONDS
        while not ended.wait(pause):
            began = time.monotonic()
            with contextlib.suppress(OSError, sqlite3.Error):  # the next one may get through, and the last one tells
                self.copy(ended)
            pause = max(EVERY_SECONDS, 19 * (time.monotonic() - began))

    def copy(self, ended: threading.Event | None = None) -> None:
        """The record first: tracking may know more than the record, but not less."""
        self._copy_database(RECORD)
        if ended is not None and ended.wait(TRACKED_LATER_SECONDS):
            return  # the last copy follows at once
        for folder in SMALL:
            for path in (self.local / folder).glob("*"):
                self._copy_file(path, f"{folder}/{path.name}")
        self._copy_database(TRACKING)

    def _copy_database(self, name: str) -> None:
        database = self.local / name
        now = tuple(part for ending in ("", "-wal") for part in _looks(self.local / f"{name}{ending}"))
        if self._copied.get(name) == now or not database.exists():
            return
        copy = self.local / f"copy-of-{name}"
        with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(copy)) as to:
            source.backup(to)
            to.execute("PRAGMA journal_mode=DELETE")  # readers of the copy need no second file
        if name == TRACKING:
            with contextlib.suppress(sqlite3.OperationalError):  # the tables are not there yet
                relocate(copy, LOCK_SECONDS, self.shared / TRACKING)
        self._put(copy, name)
        for ending in ("-wal", "-shm"):
            (self.shared / f"{name}{ending}").unlink(missing_ok=True)  # of an older database
        copy.unlink()
        self._copied[name] = now

    def _copy_file(self, path: Path, name: str) -> None:
        if path.is_file() and self._copied.get(name) != (now := _looks(path)):
            self._put(path, name)
            self._copied[name] = now

    def _put(self, source: Path, name: str) -> None:
        with source.open("rb") as content, open_atomic(self.shared / name, mode=0o600) as target:
            shutil.copyfileobj(content, target, 1 << 20)


def _looks(path: Path) -> tuple[int, ...]:
    try:
        seen = path.stat()
    except FileNotFoundError:
        return ()
    return seen.st_size, seen.st_mtime_ns


class Claim:
    """One driver at a time has a root: it writes a new number every few seconds, and the next one waits for silence."""

    def __init__(self, path: Path) -> None:
        self._path, self._me = path, f"{uuid.uuid4().hex} process {os.getpid()} on {platform.node()}"
        self._me += f" (job {os.environ['SLURM_JOB_ID']})" if "SLURM_JOB_ID" in os.environ else ""

    def take(self, silence: float | None = None) -> None:
        until, seen = time.monotonic() + (SILENCE_SECONDS if silence is None else silence), self._read()
        while seen and not self._same_job(seen[0]) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
            now = self._read()
            self._refuse_if(now, now is not None and now != seen)
            seen = now
        self._write(0)
        time.sleep(LOOK_SECONDS)  # of two that see nobody at the same time, the second to write has it
        self._refuse_if(now := self._read(), now != (self._me, 0))

    def _refuse_if(self, holder: tuple[str, int] | None, refused: bool) -> None:
        if refused:
            who = holder[0].partition(" ")[2] if holder else "it has just ended"
            fix = "wait for it to end, or give this one another --root"
            raise Co2lError(f"another search works in this root ({who})", where=str(self._path.parent), fix=fix)

    def keep(self, ended: threading.Event) -> None:
        beat = 0
        while not ended.wait(BEAT_SECONDS):
            beat += 1
            with contextlib.suppress(OSError):
                self._write(beat)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def _same_job(self, holder: str) -> bool:
        """Slurm starts a job again only after its last processes are gone."""
        return "SLURM_JOB_ID" in os.environ and holder.endswith(f"(job {os.environ['SLURM_JOB_ID']})")

    def _read(self) -> tuple[str, int] | None:
        try:
            holder, beat = json.loads(self._path.read_text())
        except FileNotFoundError:
            return None
        return str(holder), int(beat)

    def _write(self, beat: int) -> None:
        write_atomic(self._path, json.dumps([self._me, beat]), mode=0o600)
