"""Operations on their way to a server that may be away: kept in a file, sent in order, repeated until they arrive."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import requests

from co2l.errors import Co2lError, without_passwords

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # between attempts
TOGETHER_SECONDS = 0.25  # operations within them are sent together
TRIES = 3  # of an operation that the server refuses, before the others may pass
CONNECT_TRIES = 3  # before `open` gives up
REFUSED = {"INVALID_PARAMETER_VALUE", "INVALID_STATE", "RESOURCE_DOES_NOT_EXIST", "BAD_REQUEST", "MALFORMED_REQUEST"}
AWAY = {408, 425, 429, 502, 503, 504}  # what a proxy answers for a server that is not there
_log = logging.getLogger(__name__)


class Outbox:
    """Operations on their way: a file with one JSON line each, emptied when all have arrived, and a thread."""

    def __init__(self, path: Path, perform: Callable[[dict[str, Any], bool], Iterable[dict[str, Any]] | None]) -> None:
        """`perform` is given an operation and whether it was tried before; it answers what is to be performed next."""
        self.path, self.waiting = path, 0
        self._arrived = 0
        self.error: Exception | None = None  # of the last attempt
        self.tried = threading.Event()  # whether there is a connection, or an error that says why not
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            what = "another search is tracking the same study"
            raise Co2lError(what, where=str(path), fix="wait for it, or choose another --study") from None
        self._position = self._size = 0
        while chunk := os.pread(self._file, 1 << 20, self._size):
            self.waiting += chunk.count(b"\n")
            self._size += len(chunk)
        if self._size and os.pread(self._file, 1, self._size - 1) != b"\n":
            self._write(b"\n")  # half a line from a machine that went down
        self._perform, self._changed = perform, threading.Condition()
        self._closing, self._given_up = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._send, name="co2l-tracking", daemon=True)
        self._thread.start()

    def put(self, operation: dict[str, Any]) -> None:
        line = json.dumps(operation, separators=(",", ":"), default=_plain).encode() + b"\n"
        with self._changed:
            self._write(line)
            self._changed.notify()

    def _write(self, line: bytes) -> None:
        if os.write(self._file, line) < len(line):
            os.ftruncate(self._file, self._size)
            raise OSError("the disk is full")
        self._size += len(line)
        self.waiting += 1

    def close(self, patience: float) -> int:
        """Send what waits; given up when nothing has arrived for `patience` seconds. How much is left."""
        self._closing.set()
        with self._changed:
            self._changed.notify()
        before = -1
        while self._thread.is_alive() and self._arrived > before:
            before = self._arrived
            self._thread.join(patience)
        self._given_up.set()
        self._thread.join(0.1)  # in a request it may take longer, and then touches nothing any more
        with self._changed:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1
        return self.waiting

    def _send(self) -> None:
        if self._until_done({"kind": "connect"}):
            for chunk in self._chunks():
                if not all(self._until_done(operation) for operation in _merged(_parsed(chunk))):
                    return
                self._sent(chunk)
                self._closing.wait(TOGETHER_SECONDS)

    def _chunks(self) -> Iterator[bytes]:
        """Whole lines, some hundred at most."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._position < self._size or self._closing.is_set())
                if self._position == self._size or self._given_up.is_set():
                    return
                length = 1 << 16
                while b"\n" not in (chunk := os.pread(self._file, length, self._position)) and len(chunk) == length:
                    length *= 4
                if b"\n" not in chunk:  # the file was changed behind our back
                    _log.warning("%d reports for MLflow are gone from %s", self.waiting, self.path)
                    self._empty()
                    continue
            yield chunk[: chunk.rindex(b"\n") + 1]

    def _empty(self) -> None:
        os.ftruncate(self._file, 0)
        self._position = self._size = self.waiting = 0

    def _sent(self, chunk: bytes) -> None:
        with self._changed:
            if not self._given_up.is_set():
                self._position += len(chunk)
                self.waiting -= chunk.count(b"\n")
                if self._position == self._size:
                    self._empty()

    def _until_done(self, operation: dict[str, Any]) -> bool:
        """Perform one operation, again and again while the server is away; false if that was given up."""
        attempt = 0
        while not self._given_up.is_set():
            further: Iterable[dict[str, Any]] = ()
            try:
                further = self._perform(operation, attempt > 0) or ()
            except Exception as error:
                attempt += 1
                self.error = error
                if attempt >= TRIES and operation["kind"] != "connect" and refused(error):
                    _log.warning("not tracked: %s (%s)", operation["kind"], line(error))
                else:
                    if attempt >= CONNECT_TRIES:
                        self.tried.set()
                    pause = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE)
                    if self._closing.wait(pause):
                        self._given_up.wait(min(pause, 0.5))
                    continue
            self.error = None
            self._arrived += 1
            self.tried.set()
            return all(self._until_done(each) for each in further)
        return False


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _parsed(chunk: bytes) -> Iterator[dict[str, Any]]:
    for text in chunk.splitlines():
        try:
            operation = json.loads(text)
        except (ValueError, RecursionError):
            operation = None
        if _is_operation(operation):
            yield operation
        else:
            _log.warning("passed over a damaged line of the tracking spool")


def _is_operation(value: Any) -> bool:
    """Whether it can be merged and performed; what the server then thinks of it is another matter."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name, ""), str) for name in ("kind", "trial")):
        return False
    return "kind" in value and (value["kind"] not in ("report", "end") or isinstance(value.get("points"), list))


def _merged(operations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A trial's reports together with what it tells next: the order of each trial is kept, and calls are saved."""
    merged: list[dict[str, Any]] = []
    reports: dict[str, dict[str, Any]] = {}  # the last operation of a trial, where that is a report
    for operation in operations:
        trial = operation.get("trial", "")
        before = reports.pop(trial, None)
        if before and operation["kind"] in ("report", "end"):
            operation["points"] = before["points"] + operation["points"]
            merged.remove(before)
        if operation["kind"] == "report":
            reports[trial] = operation
        merged.append(operation)
    return merged


def code(error: Exception) -> str:
    return str(getattr(error, "error_code", ""))


def refused(error: Exception) -> bool:
    """Whether the server is there and does not want it, so that trying again is in vain."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code not in AWAY
    return code(error) in REFUSED if code(error) else not isinstance(error, OSError)


def line(error: Exception) -> str:
    return without_passwords((str(error).splitlines() or [""])[0][:300]) or type(error).__name__
