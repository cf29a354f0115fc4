"""Who drives a study: one process at a time, decided at once by a lock beside the record.

The lock is gone with the process that held it, so the next driver waits for nobody. One that was only stopped still
holds it. One whose connection to PostgreSQL was lost takes its lock again, or stops if another has driven since.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import uuid
from collections.abc import Iterator

from co2l.errors import Co2lError
from co2l.search.record.locks import DriverLock, alone, driver_lock
from co2l.search.record.storage import WAIT, reaching, shown

BEAT_SECONDS = 5.0  # after which a driver looks whether it still has its lock


class Lease:
    """This process's hold on a study."""

    def __init__(self, lock: DriverLock, driver: str) -> None:
        self._lock, self._driver = lock, driver
        self._released, self._taken = threading.Event(), False

    @property
    def lost(self) -> bool:
        """Whether another driver has taken over, as this one was away for long."""
        return self._taken

    def beat(self, every: float) -> None:
        while not self._taken and not self._released.wait(every):
            with contextlib.suppress(Exception):  # a storage that is away for a while is the search's concern
                self._taken = self._lock.keep(self._driver) != self._driver

    def release(self) -> None:
        self._released.set()


def driver_of(storage: str, study: str) -> str | None:
    """Who drives the study now, as `process 4711 on host`; None if nobody does."""
    with reaching(shown(storage)), alone(storage, WAIT):  # no driver begins meanwhile, so none is mistaken for us
        lock, me = driver_lock(storage, study), uuid.uuid4().hex
        holder = lock.take(f"{me} looking")
        if holder.startswith(me):
            lock.release()
            return None
    return holder.partition(" ")[2]


@contextlib.contextmanager
def driving(storage: str, study: str, *, every: float = BEAT_SECONDS) -> Iterator[Lease]:
    """Inside, this process alone drives the study; an error that names the driver if there is one already."""
    me = f"{uuid.uuid4().hex} process {os.getpid()} on {platform.node()}"
    with reaching(shown(storage)), alone(storage, WAIT):
        lock = driver_lock(storage, study)
        holder = lock.take(me)
    if holder != me:
        raise Co2lError(
            f"another search drives this study ({holder.partition(' ')[2]})",
            where=study,
            fix="wait for it to end, stop it with Ctrl-C, or give this one its own name with --study NEW",
        )
    lease = Lease(lock, me)
    thread = threading.Thread(target=lease.beat, args=(every,), name="co2l-lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        lease.release()
        thread.join()
        with contextlib.suppress(Exception):  # a storage that is gone has no lock of ours any more
            lock.release()
    if lease.lost:
        what = "another search has taken this study over, and this one has stopped"
        raise Co2lError(what, where=study, fix="leave it to that one")
