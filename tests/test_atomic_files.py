"""A file is replaced in one move: readers see all of the old content or all of the new, even if the writer fails."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from co2l.errors import Co2lError
from co2l.files import LONGEST, open_atomic, read_text, user_path, write_atomic


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


def test_a_text_of_any_length_is_read_up_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("é" * 10, encoding="utf-8")
    assert read_text(tmp_path / "text", 10) == "é" * 10
    for path, longest in ((tmp_path / "text", 9), (Path("/dev/zero"), LONGEST)):
        with pytest.raises(Co2lError, match=f"{path}: has more than {longest:,} characters"):
            read_text(path, longest)


def test_a_home_folder_that_nobody_knows_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert user_path("~/x") == Path("/home/me/x")
    with pytest.raises(Co2lError, match="--data: '~nobody-here/x': nobody knows that home folder"):
        user_path("~nobody-here/x", "--data")


def test_paths_and_texts_of_users_are_read_in_one_place() -> None:
    """Anything else ends in a traceback for a home folder that nobody knows, and takes all memory for a device."""
    package = Path(__file__).parents[1] / "co2l"
    sources = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    assert [name for name, text in sources.items() if ".expanduser(" in text] == ["files.py"]
    assert {name for name, text in sources.items() if "yaml.safe_load" in text} == {
        "reporting/paper.py",  # our own file
        "search/running/nodes.py",  # Ray's
    }
