"""Files as others name and fill them, read within bounds; and as we write them: whole, or not at all.

What is written stands beside its name first, is flushed to the disk and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from co2l.errors import Co2lError, OutsideError, headline
from co2l.shipped import install_command

LONGEST = 10**6  # characters of a text that somebody has written


def user_path(given: str | Path, where: str = "") -> Path:
    """The path, with a home folder for its ~."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise Co2lError(f"'{given}': nobody knows that home folder", where=where, fix="write it without ~") from None


def file_system(url: str, what: str) -> tuple[Any, str]:
    """What fsspec has for a folder or a URL, and the path there; errors call it `what`."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    if "://" not in url:  # a folder's name may hold what fsspec takes for the start of a URL
        return LocalFileSystem(), url
    try:
        # Other machines write here too, so a cached listing would hide what they have finished.
        found: tuple[Any, str] = fsspec.url_to_fs(url, use_listings_cache=False)
        return found
    except Exception as error:  # some file systems connect here, and each raises its own kinds
        fix = install_command("cluster") if isinstance(error, ImportError) else "give a folder or an fsspec URL"
        raise OutsideError(f"cannot open this {what}: {headline(error)}", where=url, fix=fix) from error


def read_text(path: Path, longest: int = LONGEST) -> str:
    """A text in UTF-8. A file may be a device, which never ends."""
    with path.open(encoding="utf-8") as file:
        text = file.read(longest + 1)
    if len(text) > longest:
        raise Co2lError(f"has more than {longest:,} characters", where=str(path), fix="keep to what is needed")
    return text


@contextlib.contextmanager
def open_atomic(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which takes the name `path` at the end of the block; folders are created as needed.

    Readers see the old file or the new one. After an exception the old one is still there and nothing else is.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
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
