"""A file appears whole or not at all: it is written beside its name, flushed to the disk and renamed."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def open_atomic(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which takes the name `path` at the end of the block; folders are created as needed.

    Readers see the old file or the new one. After an exception the old one is still there and nothing else is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes | str, *, mode: int = 0o666) -> None:
    """Write the whole content of `path`; text as UTF-8."""
    with open_atomic(path, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)
