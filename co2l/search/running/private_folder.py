"""A temporary folder that only its owner can enter, and that the next start removes if its process was killed.

It holds a lock as long as the process that made it, or one that inherited the lock, is alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PREFIX = "co2l-"
LOCK = "lock"
TRIES = 20
LONGEST = 40  # characters: what Ray adds makes the path of a socket, of which the system takes 107


@dataclass(frozen=True)
class PrivateFolder:
    path: Path
    lock: int  # open file, for a child to inherit


@contextlib.contextmanager
def private_folder() -> Iterator[PrivateFolder]:
    """A new folder, removed at the end; those of killed processes are removed first."""
    parent = _parent()
    remove_abandoned(parent)
    unlocked = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))  # with mode 0700, whatever the umask
    lock = os.open(unlocked / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    path = unlocked.rename(unlocked.with_name(unlocked.name[1:]))  # from now on it looks abandoned without the lock
    try:
        yield PrivateFolder(path, lock)
    finally:
        remove(path)
        os.close(lock)


def remove(path: Path) -> None:
    """Remove the folder. Processes that are just ending may still write to it; with a lock file, the next start can."""
    for _ in range(TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        with contextlib.suppress(OSError):
            (path / LOCK).touch(0o600)
        time.sleep(0.1)


def remove_abandoned(parent: Path) -> None:
    """Remove our folders below `parent` whose processes are gone. One without such a file is not ours."""
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
            finally:
                os.close(lock)


def _parent() -> Path:
    usual = tempfile.gettempdir()
    return Path(usual if len(usual) + len(f"/{PREFIX}12345678") <= LONGEST else "/tmp")
