"""What several tests of whole searches share: one that nothing disturbs, and an MLflow server."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow_server import Server, file_uri
from searches import TRIALS, Undisturbed, scores, search_here, tune_here, write_space


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str, request: pytest.FixtureRequest
) -> Undisturbed:
    """Searched once, by the first of pytest's processes that needs it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "undisturbed"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "found.json").exists():
            request.getfixturevalue("shared_ray")
            printed = search_here(write_space(folder))
            outcome = tune_here(folder)  # again, with nothing left to run
            found = scores(folder / "runs")
            assert len(found) == TRIALS  # else comparisons with them would hold for nothing
            (folder / "found.json").write_text(json.dumps([printed, outcome, found]))
    return Undisturbed(folder, *json.loads((folder / "found.json").read_text()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A space, and below the root MLflow's database without the seconds that a new one takes."""
    (tmp_path / "runs").mkdir()
    file_uri(tmp_path / "runs")
    return write_space(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()
