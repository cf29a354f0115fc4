"""A small search as a user starts it, and what it leaves in the study's database and in MLflow."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from commands import call_here, refusal_of
from mlflow import MlflowClient

from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.store import Store
from co2l.search.space.space import load

SPACE: dict[str, Any] = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 5, "E_t": 4, "probe_epochs": 10},  # a second or two per trial
    "axes": {"eta": [0.005, 0.01], "kappa": [0.1, 0.2], "buffer_size": [20, 40]},
    "selection": {"per": ["buffer_size"]},
}
TRIALS, TASKS = 8, 5
PLANNED, NAIVE = 2 * 5 + 8 * 4 * 4, 8 * (5 + 4 * 4)


@dataclass(frozen=True)
class Undisturbed:
    """A search that nothing disturbed: what it printed, what it found, and every trial's result."""

    folder: Path
    printed: list[str]  # output and log
    outcome: dict[str, Any]
    scores: dict[str, Any]

    @property
    def root(self) -> Path:
        return self.folder / "runs"


def write_space(folder: Path, **changes: Any) -> Path:
    (folder / "small.yaml").write_text(yaml.safe_dump({**SPACE, **changes}, sort_keys=False))
    return folder


def search_here(folder: Path, *arguments: str) -> list[str]:
    """Output and log of a search in this process."""
    done = call_here("co2l.tune", "--space", "small.yaml", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return [done.stdout, done.stderr]


def tune_here(folder: Path, *arguments: str) -> Any:
    return json.loads(search_here(folder, "--json", *arguments)[0])


def copy_database(source: Path, target: Path) -> None:
    """All of it: what this process wrote last may still be in a file beside it."""
    with contextlib.closing(sqlite3.connect(source)) as original, contextlib.closing(sqlite3.connect(target)) as copy:
        original.backup(copy)


def refusal(folder: Path, *arguments: str) -> str:
    """The one line that is said."""
    done = call_here("co2l.tune", "--space", "small.yaml", *arguments, cwd=folder)
    return refusal_of(done)


def selected_in(root: Path, study: str = "small") -> list[Any]:
    """What the file says was selected, without what choosing cost: that depends on kills and on the machine."""
    written = yaml.safe_load((root / "selected" / f"{study}.yaml").read_text())
    assert [each.pop("chosen_by")["protocol"] for each in written] == ["end"] * len(written)
    return list(written)


def scores(root: Path) -> dict[str, Any]:
    """Every finished trial's result, straight from the study's database."""
    return {trial: result for trial, result in _results(root).items() if result}


def _results(root: Path) -> dict[str, Any]:
    try:
        with sqlite3.connect(root / "study.db") as database:
            rows = database.execute(
                "select trial_id, key, value_json from trial_user_attributes where key in ('trial', 'so_far')"
            ).fetchall()
    except sqlite3.OperationalError:  # a search that has only begun has no tables yet
        return {}
    trials: dict[int, dict[str, Any]] = {}
    for trial, key, value in rows:
        trials.setdefault(trial, {})[key] = json.loads(value)
    known = [trial for trial in trials.values() if "trial" in trial]
    found = {trial["trial"]: trial.get("so_far", {}).get("result") for trial in known}
    assert len(found) == len(known), "a trial is recorded twice"
    return found


def driven(root: Path) -> bool:
    """Whether a driver has opened the study, which it does once it holds it."""
    try:
        with sqlite3.connect(root / "study.db") as database:
            return bool(database.execute("select 1 from study_user_attributes where key = 'space'").fetchall())
    except sqlite3.OperationalError:
        return False


def runs(uri: str) -> tuple[list[Any], list[Any]]:
    """The runs of studies and those of trials."""
    client = MlflowClient(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    by_kind: dict[str, list[Any]] = {"study": [], "trial": []}
    for run in client.search_runs(experiments):
        by_kind[run.data.tags["co2l.kind"]].append(run)
    return by_kind["study"], by_kind["trial"]


def check_complete(root: Path, uri: str | None = None, trials: int = TRIALS) -> None:
    """One parent and one finished run for every trial, and nothing else."""
    parents, children = runs(uri or f"sqlite:///{root}/mlflow.db")
    assert [run.info.status for run in parents] == ["FINISHED"]
    assert sorted(run.data.tags["co2l.trial"] for run in children) == sorted(scores(root))
    assert {run.info.status for run in children} == {"FINISHED"}
    assert len(children) == trials


def epochs_saved(store: Path, space: Path) -> dict[str, int]:
    """By trial: the epochs that its states in the store are good for, counted over all tasks."""
    tasks = BENCHMARKS[str(SPACE["benchmark"])].tasks
    (folder,) = {path.parent.name for path in store.glob("*/*.state")}  # the data are the same everywhere
    opened, found = Store(str(store)), {}
    for trial in load(str(space)).trials():
        keys = [f"{folder}/{key}" for key in trial.config.stage_keys(tasks)]
        epochs = trial.config.settings.epochs_per_task(tasks)
        ended = max((t + 1 for t in range(tasks) if opened.has_state(keys[t])), default=0)
        half = opened.load_state(keys[ended], partial=True) if ended < tasks else None
        found[trial.key] = sum(epochs[:ended]) + (half["epoch"] - 1 if half else 0)
    assert any(found.values()), "no state was found"
    return found
