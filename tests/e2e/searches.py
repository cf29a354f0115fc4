"""A small search as a user starts it, and what it leaves in the study's database and in MLflow."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from commands import call
from mlflow import MlflowClient

SPACE: dict[str, Any] = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 6, "E_t": 8, "probe_epochs": 10, "buffer_size": 20},  # a few seconds per cell
    "axes": {"eta": [0.005, 0.01], "kappa": [0.1, 0.2], "kappa_star": [0.01, 0.05]},
    "selection": {"per": []},
}
CELLS, TASKS = 8, 5
PLANNED, NAIVE = 2 * 6 + 8 * 4 * 8, 8 * (6 + 4 * 8)


@dataclass(frozen=True)
class Undisturbed:
    folder: Path
    outcome: dict[str, Any]
    scores: dict[str, Any]

    @property
    def root(self) -> Path:
        return self.folder / "runs"


def write_space(folder: Path, **changes: Any) -> Path:
    (folder / "small.yaml").write_text(yaml.safe_dump({**SPACE, **changes}, sort_keys=False))
    return folder


def tune(folder: Path, *arguments: str) -> Any:
    done = call("co2l.tune", "--space", "small.yaml", "--json", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def scores(root: Path) -> dict[str, Any]:
    """Every finished cell's result, straight from the study's database."""
    return {cell: result for cell, result in _results(root).items() if result}


def _results(root: Path) -> dict[str, Any]:
    try:
        with sqlite3.connect(root / "study.db") as database:
            rows = database.execute(
                "select trial_id, key, value_json from trial_user_attributes where key in ('cell', 'attempts')"
            ).fetchall()
    except sqlite3.OperationalError:  # a search that has only begun has no tables yet
        return {}
    trials: dict[int, dict[str, Any]] = {}
    for trial, key, value in rows:
        trials.setdefault(trial, {})[key] = json.loads(value)
    known = [trial for trial in trials.values() if "cell" in trial]
    found = {trial["cell"]: trial.get("attempts", {}).get("result") for trial in known}
    assert len(found) == len(known), "a cell is recorded twice"
    return found


def driven(root: Path) -> bool:
    """Whether a driver has said that it holds the study."""
    try:
        with sqlite3.connect(root / "study.db") as database:
            return bool(database.execute("select 1 from study_user_attributes where key = 'driver'").fetchall())
    except sqlite3.OperationalError:
        return False


def runs(uri: str) -> tuple[list[Any], list[Any]]:
    """The runs of studies and those of cells."""
    client = MlflowClient(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    by_kind: dict[str, list[Any]] = {"study": [], "trial": []}
    for run in client.search_runs(experiments):
        by_kind[run.data.tags["co2l.kind"]].append(run)
    return by_kind["study"], by_kind["trial"]


def check_complete(root: Path, uri: str | None = None) -> None:
    """One parent and one finished run for every cell, and nothing else."""
    parents, children = runs(uri or f"sqlite:///{root}/mlflow.db")
    assert [run.info.status for run in parents] == ["FINISHED"]
    assert sorted(run.data.tags["co2l.cell"] for run in children) == sorted(scores(root))
    assert {run.info.status for run in children} == {"FINISHED"}
    assert len(children) == CELLS
