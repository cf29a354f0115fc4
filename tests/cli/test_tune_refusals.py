"""What a search cannot use, or must not continue, is refused with one line before anything is trained."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import pytest
import yaml
from commands import call_here, refusal_of
from mlflow_server import file_uri

from co2l.search.record.study import StudyRecord
from co2l.search.space.space import load
from co2l.search.tracking import connection

SPACE = {"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    file_uri(tmp_path / "runs")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SPACE))
    return tmp_path


def refusal(folder: Path, *arguments: str) -> str:
    done = call_here("co2l.tune", "--space", "small.yaml", *arguments, cwd=folder)
    return refusal_of(done)


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--address", "127.0.0.1:{port}", "Ray cannot be reached"),
        ("--address", "ray://127.0.0.1:{port}", "Ray cannot be reached"),
        ("--tracking-uri", "http://127.0.0.1:{port}", "the tracking server cannot be reached"),
        ("--storage", "postgresql://me:secret@127.0.0.1:{port}/studies", "the storage cannot be used"),
    ],
)
def test_where_nobody_answers(flag: str, value: str, said: str, folder: Path) -> None:
    with socket.socket() as found:  # a port that is free, so that nobody listens there
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    line = refusal(folder, flag, value.format(port=port))
    assert f"127.0.0.1:{port}" in line
    assert said in line
    assert "secret" not in line


@pytest.mark.parametrize("name", ["study.db", "mlflow.db"])
def test_a_locked_database(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(StudyRecord.open.__kwdefaults__, "wait", 0.2)  # seconds, as the next
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.2)
    with sqlite3.connect(folder / "runs" / name) as lock:
        lock.execute("create table something (number)")
        lock.commit()
        lock.execute("begin exclusive")
        line = refusal(folder)
    assert name in line
    assert "database is locked" in line


def test_a_changed_space_under_the_same_name(folder: Path) -> None:
    StudyRecord.open(f"sqlite:///{folder}/runs/study.db", "small", load(folder / "small.yaml"))
    (folder / "small.yaml").write_text(yaml.safe_dump({**SPACE, "axes": {"kappa": [0.1, 0.3]}}))
    line = refusal(folder)
    assert "axes.kappa: [0.1, 0.2] → [0.1, 0.3]" in line
    assert "--fresh" in line
