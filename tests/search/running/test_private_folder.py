"""Temporary folders: closed to others, gone at the end, and gone with the next start if their process was killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from co2l.search.running.private_folder import private_folder

KEEP = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from co2l.search.running.private_folder import private_folder
with private_folder() as folder:
    print(folder.path, flush=True)
    time.sleep(600)
"""


def test_it_is_closed_to_others_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with private_folder() as folder:
        assert folder.path.stat().st_mode & 0o777 == 0o700
        (folder.path / "inside").mkdir()
    assert not folder.path.exists()


def test_what_an_ending_process_still_writes_is_removed_too() -> None:
    written = threading.Event()

    def write(folder: Path) -> None:
        for i in range(30):
            with contextlib.suppress(OSError):
                (folder / str(i)).write_text("late")
            written.set()
            time.sleep(0.01)

    with private_folder() as folder:
        thread = threading.Thread(target=write, args=(folder.path,))
        thread.start()
        written.wait()
    thread.join()
    assert not folder.path.exists()


def test_the_path_stays_short_enough_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("long" * 20)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with private_folder() as folder:
        session = "session_2026-12-31_23-59-59_999999_4194304"  # as Ray names it, with the largest process number
        assert len(str(folder.path / "r" / session / "sockets" / "plasma_store.9")) <= 107


def test_the_next_start_removes_what_a_killed_process_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        process = subprocess.Popen([sys.executable, "-c", KEEP, short], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        left, strange = Path(process.stdout.readline().strip()), Path(short) / "co2l-of-another-program"
        strange.mkdir()
        with private_folder():
            assert left.is_dir()  # its process is alive
        process.kill()
        process.communicate()
        with private_folder():
            assert not left.exists()
        assert strange.is_dir()
