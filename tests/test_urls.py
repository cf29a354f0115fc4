"""Databases below any path, URLs that are none, and passwords that no message shows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy
from bad_spaces import GOOD
from commands import call_here
from mlflow_server import empty_database

from co2l.errors import Co2lError, without_passwords
from co2l.search.record.storage import connect
from co2l.search.tracking.connection import connect as connect_tracking
from co2l.search.tracking.connection import database_of
from co2l.urls import check_tracking_uri, database_url, sqlite_file, sqlite_url

ODD = ["a?b", "a%20b%", "a#b", "a b", "a{b}", "a@b:c", "größe"]


@pytest.mark.parametrize("name", ODD)
def test_a_path_of_any_characters_and_back(name: str, tmp_path: Path) -> None:
    file = tmp_path / name / "study.db"
    assert sqlite_file(sqlite_url(file)) == file
    file.parent.mkdir()
    connect(sqlite_url(file)).create_new_study(directions=[1])  # type: ignore[list-item]
    with sqlite3.connect(file) as database:
        assert database.execute("select count(*) from studies").fetchall() == [(1,)]
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a?b%20#{c}"])
def test_mlflow_takes_it_too(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    root.mkdir()
    (root / "mlflow.db").write_bytes(empty_database())
    uri = sqlite_url(root / "mlflow.db")
    connect_tracking(uri).create_experiment("x", artifact_location=root.as_uri())
    assert database_of(uri) == root / "mlflow.db"
    with sqlite3.connect(root / "mlflow.db") as database:
        assert ("x",) in database.execute("select name from experiments").fetchall()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "user:geheim@host/db",
        "postgresql://u:geheim@host:abc/db",
        "postgresql://u:ge/heim@host/db",
        "postgresql://u:ge?heim@host/db",
        "postgresql://u:ge@heim@host/db",
        "postgresql://u:geheim@host:1:2/db",
        "postgresql://u:geheim@host:99999999/db",
        "postgresql://u:geheim@host:0/db",
        "sqlite:///study.db?mode=ro",
    ],
)
def test_no_database(url: str, tmp_path: Path) -> None:
    with pytest.raises(Co2lError) as caught:
        database_url(url, "--storage")
    assert "heim" not in str(caught.value)
    if url:
        (tmp_path / "space.yaml").write_text(GOOD)
        for flag in ("--storage", "--tracking-uri"):
            done = call_here("co2l.tune", "--space", "space.yaml", flag, url, cwd=tmp_path)
            assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
            assert "heim" not in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["space.yaml"]


@pytest.mark.parametrize("uri", ["http://u:p/w@host", "http://host:99999", "http://", "http://h h", "foo://x", "./x"])
def test_no_tracking_server(uri: str) -> None:
    with pytest.raises(Co2lError):
        check_tracking_uri(uri)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:5000", "https://u:p@host/mlflow", "sqlite:///x.db", "file:/tmp/x"])
def test_tracking_servers(uri: str) -> None:
    check_tracking_uri(uri)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://user:pw@host/db", "postgresql://user:***@host/db"),
        ("user:pw@host/db", "user:***@host/db"),
        ("cannot reach 'http://u:p/w@h:5000/x'!", "cannot reach 'http://u:***@h:5000/x'!"),
        ("http://:p@ss@h and http://u:q@k", "http://:***@h and http://u:***@k"),
        ("postgresql://h/db?user=u&password=pw&x=1", "postgresql://h/db?user=u&password=***&x=1"),
        ("http://host:5000/x", "http://host:5000/x"),
        ("postgresql://user@host/db", "postgresql://user@host/db"),
        ("models:/name@selected at 12:30", "models:/name@selected at 12:30"),
    ],
)
def test_passwords_are_hidden(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_what_sqlalchemy_hides_is_hidden_here_too() -> None:
    url = sqlalchemy.URL.create("postgresql", "user", "p/w?@#", "host", 5432, "db")
    assert "p/w" not in without_passwords(url.render_as_string(hide_password=False))
