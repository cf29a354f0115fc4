"""A root whose databases are on a local disk: copies are whole, the next driver begins from them, one at a time."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from co2l.cluster import mirror
from co2l.cluster.mirror import Claim, Mirror, mirrored
from co2l.errors import Co2lError


def write(database: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for statement in statements:
            connection.execute(statement)


def read(database: Path, query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_SECONDS", "SILENCE_SECONDS", "TRACKED_LATER_SECONDS"):
        monkeypatch.setattr(mirror, name, 0.02)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def test_the_next_one_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    with mirrored(shared, tmp_path / "first"):
        write(tmp_path / "first" / "study.db", "create table t (x)", "insert into t values (1)")
        (tmp_path / "first" / "selected").mkdir()
        (tmp_path / "first" / "selected" / "a.yaml").write_text("best")
        assert not (shared / "study.db").exists()
    assert read(shared / "study.db", "select x from t") == [(1,)]
    with mirrored(shared, tmp_path / "second"):
        assert read(tmp_path / "second" / "study.db", "select x from t") == [(1,)]
        assert (tmp_path / "second" / "selected" / "a.yaml").read_text() == "best"
    assert not (shared / "driver.json").exists()


def test_a_copy_is_whole_while_the_database_is_written_to(tmp_path: Path) -> None:
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    made = Mirror(shared, local)
    made.fetch()
    with contextlib.closing(sqlite3.connect(local / "study.db")) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("create table t (x)")
        writer.commit()
        writer.execute("insert into t values (1)")
        made.copy()  # in the middle of a transaction
        assert read(shared / "study.db", "select x from t") == []
        writer.commit()
        made.copy()
        assert read(shared / "study.db", "select x from t") == [(1,)]
        assert sorted(path.name for path in shared.iterdir()) == ["artifacts", "study.db"]


def test_an_unchanged_database_is_not_copied_again(tmp_path: Path) -> None:
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    made = Mirror(shared, local)
    made.fetch()
    write(local / "study.db", "create table t (x)")
    made.copy()
    before = (shared / "study.db").stat().st_ino
    made.copy()
    assert (shared / "study.db").stat().st_ino == before


def test_what_a_killed_search_wrote_into_the_root_itself_is_taken_along(tmp_path: Path) -> None:
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    killed = sqlite3.connect(shared / "study.db")
    killed.execute("PRAGMA journal_mode=WAL")
    killed.execute("create table t (x)")
    killed.commit()  # only in the file beside it
    assert (shared / "study.db-wal").stat().st_size > 0
    made = Mirror(shared, local)
    made.fetch()
    killed.close()
    assert read(local / "study.db", "select x from t") == []
    made.copy()
    assert not (shared / "study.db-wal").exists()
    assert read(shared / "study.db", "select x from t") == []


def test_artifacts_are_in_the_shared_root_and_tracking_names_them_there(tmp_path: Path) -> None:
    shared, local = tmp_path / "shared", tmp_path / "local"
    with mirrored(shared, local):
        here = (local / "artifacts").as_uri()
        tables = ["experiments (name, artifact_location)", "runs (artifact_uri)"]
        tables.append("model_versions (source, storage_location)")
        rows = [f"experiments values ('co2l/a', '{here}')", f"runs values ('{here}/abc')"]
        rows += ["runs values ('s3://elsewhere/2')", f"model_versions values ('{here}/m', '{here}/m')"]
        write(
            local / "mlflow.db", *(f"create table {each}" for each in tables), *(f"insert into {each}" for each in rows)
        )
        (local / "artifacts" / "figure.png").write_text("png")
    there = (shared / "artifacts").as_uri()
    assert read(shared / "mlflow.db", "select artifact_location from experiments") == [(there,)]
    assert read(shared / "mlflow.db", "select * from runs") == [(f"{there}/abc",), ("s3://elsewhere/2",)]
    assert read(shared / "mlflow.db", "select * from model_versions") == [(f"{there}/m", f"{there}/m")]
    assert (shared / "artifacts" / "figure.png").read_text() == "png"


def test_a_tracking_database_without_tables_is_copied_too(tmp_path: Path) -> None:
    shared, local = tmp_path / "shared", tmp_path / "local"
    with mirrored(shared, local):
        write(local / "mlflow.db", "create table alembic_version (x)")
    assert read(shared / "mlflow.db", "select * from alembic_version") == []


def test_a_second_driver_is_refused_while_the_first_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(mirror, "SILENCE_SECONDS", 10.0)
    with (
        mirrored(tmp_path / "shared", tmp_path / "first"),
        pytest.raises(Co2lError, match="another search works in this root"),
    ):
        Claim(tmp_path / "shared" / "driver.json").take()


def test_one_that_was_killed_is_followed_after_a_silence_and_at_once_by_its_own_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    Claim(tmp_path / "driver.json").take()  # and never heard of again
    monkeypatch.setenv("SLURM_JOB_ID", "18")
    Claim(tmp_path / "driver.json").take()
    monkeypatch.setattr(mirror, "SILENCE_SECONDS", 3600.0)
    Claim(tmp_path / "driver.json").take()  # the same job, started again


def test_of_two_that_begin_at_once_one_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "LOOK_SECONDS", 0.3)
    outcomes: list[bool] = []
    both, read, before = threading.Barrier(2), Claim._read, threading.local()

    def read_together(claim: Claim) -> tuple[str, int] | None:
        """Neither writes before the other has seen nobody."""
        found = read(claim)
        if not hasattr(before, "read"):
            before.read = both.wait(60)
        return found

    monkeypatch.setattr(Claim, "_read", read_together)

    def attempt() -> None:
        try:
            Claim(tmp_path / "driver.json").take()
            outcomes.append(True)
        except Co2lError:
            outcomes.append(False)

    threads = [threading.Thread(target=attempt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, True]
