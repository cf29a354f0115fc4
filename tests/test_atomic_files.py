"""A file is replaced in one move: readers see all of the old content or all of the new, even if the writer fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from co2l.files import open_atomic, write_atomic


def test_text_and_bytes_are_written_below_new_folders(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b" / "text", "κ* = 0.01\n")
    write_atomic(tmp_path / "bytes", b"\x00\xff")
    assert (tmp_path / "a" / "b" / "text").read_bytes() == b"\xce\xba* = 0.01\n"
    assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"
    assert {path.name for path in tmp_path.rglob("*")} == {"a", "b", "text", "bytes"}


def test_the_old_content_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with open_atomic(path) as file:
        file.write(b"new, but not yet")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new, but not yet"


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_a_writer_that_fails_leaves_the_old_file_alone(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with open_atomic(path) as file:
            file.write(b"half of the ne")
            raise error

    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(type(error)):
        fail()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        for name, mode in (("plain", 0o666), ("secret", 0o600)):
            with open_atomic(tmp_path / name, mode=mode) as file:
                during = os.fstat(file.fileno()).st_mode
            assert stat.S_IMODE(during) == stat.S_IMODE((tmp_path / name).stat().st_mode) == mode & ~0o022
    finally:
        os.umask(previous)
