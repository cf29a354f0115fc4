"""python -m co2l.tune, with a real Ray and a real MLflow store: once, again, killed, without reuse, and refused."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call, start
from mlflow import MlflowClient

SPACE = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 3, "E_t": 2, "probe_epochs": 10, "buffer_size": 20},
    "axes": {"eta": [0.005, 0.01], "kappa": [0.1, 0.2], "kappa_star": [0.01, 0.05]},
    "selection": {"per": []},
}
CELLS, PLANNED, NAIVE = 8, 2 * 3 + 8 * 4 * 2, 8 * (3 + 4 * 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SPACE))
    return tmp_path


def tune(folder: Path, *arguments: str) -> Any:
    done = call("co2l.tune", "--space", "small.yaml", "--json", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def scores(folder: Path, root: str = "runs") -> dict[str, Any]:
    """Every finished cell's result, straight from the study's database."""
    with sqlite3.connect(folder / root / "study.db") as database:
        rows = database.execute(
            "select trial_id, key, value_json from trial_user_attributes where key in ('cell', 'attempts')"
        ).fetchall()
    trials: dict[int, dict[str, Any]] = {}
    for trial, key, value in rows:
        trials.setdefault(trial, {})[key] = json.loads(value)
    done = [trial for trial in trials.values() if trial.get("attempts", {}).get("result")]
    found = {trial["cell"]: trial["attempts"]["result"] for trial in done}
    assert len(found) == len(done), "a cell is recorded twice"
    return found


def runs(folder: Path, root: str = "runs") -> tuple[list[Any], list[Any]]:
    client = MlflowClient(f"sqlite:///{folder / root / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    everything = client.search_runs(experiments)
    by_kind: dict[str, list[Any]] = {"study": [], "trial": []}
    for run in everything:
        by_kind[run.data.tags["co2l.kind"]].append(run)
    return by_kind["study"], by_kind["trial"]


def test_a_search_its_answer_and_its_second_time(folder: Path) -> None:
    first = tune(folder)
    assert (first["epochs_trained"], first["epochs_reused"]) == (PLANNED, NAIVE - PLANNED)
    assert len(first["selected"]) == 1
    found = scores(folder)
    assert len(found) == CELLS
    best = max(found.values(), key=lambda result: result["score"])
    assert first["selected"][0]["score"] == best["score"]
    assert len({result["weights"] for result in found.values()}) == CELLS
    (chosen,) = yaml.safe_load((folder / "runs" / "selected" / "small.yaml").read_text())
    assert chosen["settings"]["eta"] in SPACE["axes"]["eta"]

    parents, children = runs(folder)
    assert len(parents) == 1
    assert len(children) == CELLS
    assert {run.info.status for run in parents + children} == {"FINISHED"}
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parents[0].info.run_id}
    selected = [run for run in children if run.data.tags.get("co2l.selected") == "true"]
    assert [run.data.tags["co2l.cell"] for run in selected] == first["selected"][0]["cells"]
    assert selected[0].data.metrics["val/score"] == best["score"]

    again = tune(folder)
    assert again == first
    assert scores(folder) == found
    assert len(runs(folder)[1]) == CELLS


def test_without_reuse_every_score_is_the_same(folder: Path) -> None:
    shared = tune(folder, "--root", "shared")
    alone = tune(folder, "--root", "alone", "--no-reuse")
    assert scores(folder, "shared") == scores(folder, "alone")
    assert shared["selected"] == alone["selected"]
    assert (shared["epochs_trained"], alone["epochs_trained"]) == (PLANNED, NAIVE)


def kill_session(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the driver and to everything that it started."""
    import psutil

    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        try:
            os.kill(member.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()


def test_driver_killed_and_started_again(folder: Path) -> None:
    tune(folder, "--root", "through")
    for kill_after in (1, 4):
        process = start("co2l.tune", "--space", "small.yaml", "--root", "killed", cwd=folder)
        while process.poll() is None:
            database = folder / "killed" / "study.db"
            if database.exists():
                try:
                    if len(scores(folder, "killed")) >= kill_after:
                        break
                except sqlite3.Error:
                    pass
            time.sleep(0.1)
        kill_session(process)
    final = tune(folder, "--root", "killed")
    assert scores(folder, "killed") == scores(folder, "through")
    assert final["cells_left"] == 0
    parents, children = runs(folder, "killed")
    assert len(parents) == 1
    assert sorted(run.data.tags["co2l.cell"] for run in children) == sorted(scores(folder, "killed"))
    assert {run.info.status for run in children} == {"FINISHED"}


def test_a_changed_space_under_the_same_name_is_refused(folder: Path) -> None:
    tune(folder, "--time-budget", "1")
    changed = {**SPACE, "axes": {**SPACE["axes"], "kappa": [0.1, 0.3]}}
    (folder / "small.yaml").write_text(yaml.safe_dump(changed))
    done = call("co2l.tune", "--space", "small.yaml", cwd=folder)
    assert done.returncode == 2
    assert "kappa" in done.stderr
    assert "--fresh" in done.stderr
    assert "Traceback" not in done.stderr


def test_more_than_any_node_has(folder: Path) -> None:
    done = call("co2l.tune", "--space", "small.yaml", "--gpus-per-trial", "8", cwd=folder)
    assert done.returncode == 2
    assert "no node has that" in done.stderr
