"""The services of a cluster: what other users of their machine can see of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from co2l.cluster import postgres, services

DATABASE = "postgresql://co2l:geheim@127.0.0.1/mlflow"


def test_no_process_shows_a_password_among_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every user of a machine sees the arguments of all processes, and only the owner their environment."""
    started: list[tuple[Sequence[str], Mapping[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda _path, words, variables: started.append((words, variables)))
    monkeypatch.setattr(postgres, "ensure_database", lambda _: None)
    given = {"CO2L_MLFLOW_DATABASE": DATABASE, "MLFLOW_AUTH_ADMIN_PASSWORD": "auch-geheim-hier"}
    for name, value in {**given, "MLFLOW_FLASK_SERVER_SECRET_KEY": "geheimer-key"}.items():
        monkeypatch.setenv(name, value)
    services.run_mlflow("127.0.0.1", 5000, "artifacts", "", tmp_path)
    ((words, variables),) = started
    assert "server" in words
    assert "geheim" not in " ".join(words)
    assert variables["MLFLOW_BACKEND_STORE_URI"] == DATABASE
    assert (tmp_path / "mlflow-auth.ini").stat().st_mode & 0o077 == 0
    assert "\nauth_cache_ttl_seconds = 60\n" in (tmp_path / "mlflow-auth.ini").read_text()  # else for every request
