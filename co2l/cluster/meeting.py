"""Where the nodes of a Slurm search meet: a file below its root says how its head is reached, or that it has ended.

The head is new each time the search's job starts, and so are its port and its token. Anyone who reads the file can run
code as you: only you can.
"""

from __future__ import annotations

import importlib.metadata
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from co2l.errors import Co2lError
from co2l.files import write_atomic

FILE = "head.json"
LOOK_SECONDS = 1.0


def versions() -> str:
    """What all nodes must have in common."""
    return f"co2l {importlib.metadata.version('co2l')}, Ray {importlib.metadata.version('ray')}"


@dataclass(frozen=True)
class Head:
    """`state` is "away" from the end of a job that will continue to its next start."""

    state: Literal["running", "away", "ended"]
    job: str  # and how often it was started before
    address: str = ""
    token: str = ""
    versions: str = ""

    def announce(self, root: Path) -> None:
        write_atomic(root / FILE, json.dumps(asdict(self)), mode=0o600)


def read(root: Path) -> Head | None:
    """What the last head has said; None if there was none."""
    try:
        return Head(**json.loads((root / FILE).read_text()))
    except FileNotFoundError:
        return None


def wait_for_head(
    root: Path, wanted: Callable[[Head], bool], asked_to_stop: Callable[[], bool], patience: float
) -> Head | None:
    """A head that is running, or the word that the search has ended; None if neither comes."""
    until = time.monotonic() + patience
    while not asked_to_stop() and time.monotonic() < until:
        head = read(root)
        if head is not None and head.state != "away" and wanted(head):
            if head.state == "running" and head.versions != versions():
                what = f"this node has {versions()}, the search's head has {head.versions}"
                raise Co2lError(what, where=str(root), fix="install the same versions on all nodes")
            return head
        time.sleep(LOOK_SECONDS)
    return None
