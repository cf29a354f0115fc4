"""Signals that ask a command to end, at any time after its first line, and the permissions of what it writes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from commands import call_here, environment

from co2l.cli.console import ENDING, creating, execute, interruptible


@pytest.mark.parametrize(
    ("imported", "number"),  # from its very first import on, when its own files are read, and inside a large library
    [("typing", signal.SIGINT), ("co2l.errors", signal.SIGINT), ("numpy", signal.SIGINT), ("numpy", signal.SIGHUP)],
)
def test_a_signal_during_imports_leaves_no_traceback(imported: str, number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("benchmark: seq_digits\naxes: {eta: [0.1]}\n")
    command = [sys.executable, "-X", "importtime", "-m", "co2l.tune", "--space", "space.yaml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rpartition("|")[2].strip() == imported:
                process.send_signal(number)
                break
        rest = [line for line in process.stderr if not line.startswith("import time:")]
    assert (process.returncode, rest) == (130, [])


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_asks_and_the_second_ends(number: signal.Signals) -> None:
    with interruptible() as asked_to_stop:
        assert not asked_to_stop()
        signal.raise_signal(number)
        assert asked_to_stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible() as asked_to_stop:
            signal.raise_signal(signal.SIGHUP)
            assert not asked_to_stop()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_new_files_are_private_and_the_mask_is_as_before_afterwards(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with creating(0o077):
            (tmp_path / "private").write_text("")
        (tmp_path / "public").write_text("")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("private", "public")] == [0o600, 0o644]


@pytest.mark.parametrize("text", ["8", "77", "9999", "0o77", "-77", "077 "])
def test_a_mask_has_three_octal_digits(text: str, tmp_path: Path) -> None:
    done = call_here("co2l.tune", "--space", "x.yaml", f"--umask={text}", cwd=tmp_path)
    assert done.returncode == 2
    assert f"'{text}' is no mask of three octal digits" in done.stderr


def test_what_the_system_refuses_is_one_line_with_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full disk met while the selected configuration was written used to end in a traceback."""

    def full() -> int:
        raise OSError(28, "No space left on device", "runs/selected/s.yaml")

    monkeypatch.setattr("co2l.tune.main", full)
    done = call_here("co2l.tune", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("co2l: runs/selected/s.yaml: No space left on device; ")
    assert "the same command again" in line


@pytest.mark.parametrize("word", ["\x1b[31mred", "a\nb", "\udcff", "\x9b31m"])
def test_no_word_reaches_the_terminal_that_commands_it(word: str, tmp_path: Path) -> None:
    """The root, the space's file and its variants were printed as they were given."""
    for command in (["--root", word, "--space", "s.yaml"], [f"--root={word}"], ["--space", word], [word]):
        done = call_here("co2l.tune", *command, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr[:-1].isprintable()
        assert "' cannot be printed; leave out control characters" in done.stderr
    assert not list(tmp_path.iterdir())


def test_variables_and_the_current_folder_are_printed_as_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "\x1b[31mred"
    folder.mkdir()
    done = call_here("co2l.tune", "--space", "s.yaml", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "co2l: the current folder: '" in done.stderr
    monkeypatch.setenv("CO2L_ROOT", "\x1b[31mred")
    done = call_here("co2l.tune", "--space", "s.yaml", cwd=tmp_path)
    assert done.stderr.startswith("co2l: CO2L_ROOT: '\\x1b[31mred' cannot be printed")


def test_output_that_cannot_be_written_is_one_line() -> None:
    """Python itself complained at its end, in two lines and with code 120."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "co2l", "spaces"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "co2l: No space left on device; see to that, and run the same command again\n"


def test_a_reader_that_has_gone_hears_no_complaint() -> None:
    command = [sys.executable, "-m", "co2l", "spaces"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_terminal_without_our_letters_shows_what_it_can() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        execute(lambda: print("κ = 0.1") or 0)  # type: ignore[func-returns-value]
    assert ended.value.code == 0
    assert out.buffer.getvalue() == b"\\u03ba = 0.1\n"  # type: ignore[attr-defined]


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def vast() -> int:
        raise MemoryError

    monkeypatch.setattr("co2l.tune.main", vast)
    done = call_here("co2l.tune", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "co2l: there is not enough memory; give smaller values, or use a larger machine\n"
