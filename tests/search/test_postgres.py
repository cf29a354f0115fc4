"""The record on a real PostgreSQL server, as a cluster has one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

from co2l.errors import Co2lError
from co2l.search.queue import FINISHED, CellQueue
from co2l.search.space import Cell, parse
from co2l.search.study import Record

SPACE = parse({"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2], "buffer_size": [50, "unlimited"]}}, "s.yaml")


def binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "")]
    if not found[-1].is_file():
        pytest.skip("no PostgreSQL server is installed (initdb is not found)")
    pytest.importorskip("psycopg", reason="the driver of PostgreSQL is not installed: pip install -e '.[cluster]'")
    return found[-1].parent


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a database on loopback that is gone afterwards; the server refuses to run as root."""
    programs, account = binaries(), "postgres" if os.getuid() == 0 else None
    as_account: dict[str, Any] = {"user": account, "capture_output": True, "check": True, "cwd": "/"}
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if account:
            shutil.chown(folder, account)
        data = f"{folder}/data"
        subprocess.run([programs / "initdb", "-D", data, "-A", "trust", "-U", "me", "--no-sync"], **as_account)
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        control = [programs / "pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", options]
        subprocess.run([*control, "start"], **as_account)
        try:
            yield f"postgresql://me:secret@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **as_account)


def result(score: float) -> dict[str, Any]:
    return {"score": score, "average": {"class_il": score, "task_il": score}, "matrix": {}}


def test_a_search_that_is_stopped_and_continued(server: str) -> None:
    queue = CellQueue(SPACE, Record.open(server, "s", SPACE))
    first = queue.next()
    assert isinstance(first, Cell)
    queue.started(first)
    with queue.record.lease.beating(every=0.01):
        queue.stage_ready(first)
        queue.finished(first, result(61.5), 3, 0, 1.0)
        second = queue.next()
        assert isinstance(second, Cell)
        queue.started(second)
    again = CellQueue(SPACE, Record.open(server, "s", SPACE))
    assert again.record.entries[first.key].result == result(61.5)
    assert again.unfinished == 3
    while isinstance(cell := again.next(), Cell):
        again.started(cell)
        again.finished(cell, result(50.0), 1, 2, 1.0)
    assert cell is FINISHED
    url = server.replace("postgresql://", "postgresql+psycopg://")
    trials = optuna.load_study(study_name="s", storage=url).trials
    assert sorted(trial.value or 0.0 for trial in trials) == [50.0, 50.0, 50.0, 61.5]
    with pytest.raises(Co2lError, match="another space"):
        Record.open(server, "s", SPACE.replace(seeds=[3]))


def test_a_database_that_is_not_there(server: str) -> None:
    with pytest.raises(Co2lError, match='database "nosuch" does not exist') as error:
        Record.open(server.replace("/postgres", "/nosuch"), "s", SPACE)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)
