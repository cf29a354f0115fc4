"""The data root: the one folder that a command finds datasets in, and benchmarks that are described by a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from co2l.files import user_path

_below: Path | None = None  # as a command was told


def data_root(given: str | Path | None = None) -> Path:
    """The folder given, else that of the command, else CO2L_DATA, else `data` below the current folder."""
    return user_path(given or _below or os.environ.get("CO2L_DATA") or "data", "the data root").absolute()


@contextmanager
def data_below(given: str | Path | None) -> Iterator[None]:
    """Inside, this is the data root, wherever it is asked for; without a folder nothing changes."""
    global _below
    before, _below = _below, data_root(given) if given else _below
    try:
        yield
    finally:
        _below = before
