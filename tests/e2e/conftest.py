"""What several tests of whole searches share: one that nothing disturbs, and an MLflow server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow_server import Server, empty_database
from searches import Undisturbed, scores, tune, write_space


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = write_space(tmp_path_factory.mktemp("undisturbed"))
    outcome = tune(folder)
    return Undisturbed(folder, outcome, scores(folder / "runs"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_space(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path, empty_database(tmp_path))
    made.start()
    yield made
    made.kill()
