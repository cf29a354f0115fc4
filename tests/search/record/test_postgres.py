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
import sqlalchemy

from co2l.errors import Co2lError
from co2l.search.record import locks
from co2l.search.record.entries import Cost
from co2l.search.record.lease import driving
from co2l.search.record.study import StudyRecord
from co2l.search.running.queue import FINISHED, TrialQueue
from co2l.search.space.space import parse
from co2l.search.space.trial import Trial

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
    record = StudyRecord.open(server, "s", SPACE)
    queue = TrialQueue(SPACE, record)
    first = queue.next()
    assert isinstance(first, Trial)
    record.begin(first)
    record.finish(first, result(61.5), Cost(3, 0, 1.0))
    queue.finished(first)
    second = queue.next()
    assert isinstance(second, Trial)
    record.begin(second)
    again = StudyRecord.open(server, "s", SPACE)
    queue = TrialQueue(SPACE, again)
    assert again.entries[first.key].result == result(61.5)
    assert queue.unfinished == 3
    while isinstance(trial := queue.next(), Trial):
        again.begin(trial)
        again.finish(trial, result(50.0), Cost(1, 2, 1.0))
        queue.finished(trial)
    assert trial is FINISHED
    url = server.replace("postgresql://", "postgresql+psycopg://")
    trials = optuna.load_study(study_name="s", storage=url).trials
    assert sorted(trial.value or 0.0 for trial in trials) == [50.0, 50.0, 50.0, 61.5]
    with pytest.raises(Co2lError, match="another space"):
        StudyRecord.open(server, "s", SPACE.replace(seeds=[3]))


def test_a_database_that_is_not_there(server: str) -> None:
    with pytest.raises(Co2lError, match='database "nosuch" does not exist') as error:
        StudyRecord.open(server.replace("/postgres", "/nosuch"), "s", SPACE)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def sessions_ended(server: str) -> None:
    """All but our own, as when the server was restarted or the network was away."""
    engine = sqlalchemy.create_engine(server.replace("postgresql://", "postgresql+psycopg://"))
    others = "pid <> pg_backend_pid() and backend_type = 'client backend'"
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}"))
    engine.dispose()


def refusal(server: str) -> str:
    with pytest.raises(Co2lError) as error, driving(server, "lease"):
        pass
    return str(error.value)


def test_a_session_decides_who_drives(server: str) -> None:
    for _ in range(2):
        with driving(server, "lease"), driving(server, "another"):
            assert refusal(server).startswith(f"lease: another search drives this study (process {os.getpid()} on ")


def test_a_driver_that_lost_its_connection_takes_its_lock_again_unless_another_drove(server: str) -> None:
    lock = locks.driver_lock(server, "lease")
    assert lock.take("first") == lock.keep("first") == "first"
    sessions_ended(server)
    assert lock.keep("first") == "first"
    assert "(process" not in refusal(server)  # it is held again, by "first"
    sessions_ended(server)
    with driving(server, "lease"):
        assert lock.keep("first") != "first"
    assert lock.keep("first") != "first"  # not even after that one has ended
    lock.release()


class Broken:
    def execute(self, *_: Any) -> Any:
        raise sqlalchemy.exc.DBAPIError("select 1", {}, OSError("the connection is lost"))


def test_a_session_that_postgres_has_not_missed_yet_is_no_other_driver(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = locks.driver_lock(server, "lease")
    assert lock.take("first") == "first"
    with monkeypatch.context() as patch:
        patch.setattr(lock, "_session", Broken())
        assert lock.keep("first") == "first"
    assert "another search drives" in refusal(server)
    lock.release()
    with driving(server, "lease"):
        pass


def test_postgres_misses_a_machine_that_is_gone_within_seconds(server: str) -> None:
    """Its own settings are those of the system: two hours."""
    with locks.alone(server, 1.0), locks._session(locks.location(server)) as session:  # type: ignore[arg-type]
        idle, interval, count, timeout = (
            int(session.execute(sqlalchemy.text(f"select setting from pg_settings where name = '{name}'")).scalar_one())
            for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        )
    assert 0 < idle + count * interval <= locks.GONE_SECONDS
    assert timeout == 1000 * locks.GONE_SECONDS
