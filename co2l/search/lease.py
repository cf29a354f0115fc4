"""Who drives a study: one process at a time, which shows by its beats that it is alive.

A driver that was killed says nothing. On its own machine the next one sees at once that the process is gone; on
another it waits for a beat, by no clock but its own, and goes on if none comes.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from co2l.errors import Co2lError

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 16.0  # without a beat a driver is dead

Read = Callable[[], Mapping[str, Any] | None]
Write = Callable[[Mapping[str, Any] | None], None]


def refuse_second_driver(study: str, read: Read, silence: float = SILENCE_SECONDS) -> None:
    """An error if another process drives the study now; `read` gives what the last one wrote."""
    holder = read()
    if holder and _is_alive(holder, read, silence):
        raise Co2lError(
            f"another search drives this study (process {holder['pid']} on {holder['host']})",
            where=study,
            fix="wait for it to end, stop it with Ctrl-C, or give this one its own name with --study NEW",
        )


class Lease:
    """This process's hold on a study, from the moment it is made."""

    def __init__(self, study: str, read: Read, write: Write) -> None:
        self._study, self._read, self._write = study, read, write
        self._me = {"name": uuid.uuid4().hex, "host": platform.node(), **_process(os.getpid())}
        self._released, self._taken = threading.Event(), False
        write({**self._me, "beat": 0})

    @property
    def lost(self) -> bool:
        """Whether another driver has taken over, as this one was silent for long: it slept, or started too close."""
        return self._taken

    @contextlib.contextmanager
    def beating(self, every: float = BEAT_SECONDS) -> Iterator[None]:
        """Inside the study is held; afterwards it is free."""
        thread = threading.Thread(target=self._beat, args=(every,), name="co2l-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._released.set()
            thread.join()
            with contextlib.suppress(Exception):  # a storage that is gone: the next driver finds a silent one
                if self._is_mine():
                    self._write(None)
        if self._taken:
            what = "another search has taken this study over, and this one has stopped"
            raise Co2lError(what, where=self._study, fix="leave it to that one")

    def _beat(self, every: float) -> None:
        beat = 0
        while not self._released.wait(every):
            with contextlib.suppress(Exception):  # a storage that is away for a while is the search's concern
                if not self._is_mine():
                    self._taken = True
                    return
                beat += 1
                self._write({**self._me, "beat": beat})

    def _is_mine(self) -> bool:
        return bool((self._read() or {}).get("name") == self._me["name"])


def _is_alive(holder: Mapping[str, Any], read: Read, silence: float) -> bool:
    here = _process(holder["pid"])
    if here["machine"] and here["machine"] == holder["machine"]:
        return bool(holder["pid"] != os.getpid() and here["started"] == holder["started"])
    end = time.monotonic() + silence
    while time.monotonic() < end:
        time.sleep(min(0.5, silence / 8))
        if (now := read()) != holder:
            return now is not None
    return False


def _process(pid: int) -> dict[str, Any]:
    """A process of this machine, so that no later one is taken for it; without /proc the machine has no name."""
    machine, started = "", ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine = f"{boot} {Path('/proc/self/ns/pid').readlink()}"  # containers have numbers of their own
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        started = "" if fields[0] == "Z" else fields[19]
    return {"machine": machine, "pid": pid, "started": started}
