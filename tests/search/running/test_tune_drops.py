"""Nothing waits for an attempt that Tune has dropped, and an error of ours ends the search instead of its trial."""

from __future__ import annotations

import sqlite3
import sys
import time
import types
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from ray.tune.execution.tune_controller import TuneController
from test_outside import Unseen, small

from co2l.errors import Co2lError
from co2l.learning.config import RunConfig
from co2l.learning.events import Event, RunDone
from co2l.learning.results import Result
from co2l.search.record.study import StudyRecord
from co2l.search.running.coordinator import Coordinator
from co2l.search.running.engine import run_trials
from co2l.search.running.trainable import Assignment, TrialTrainable
from co2l.search.space.trial import Trial

PATIENCE = 40.0  # seconds, until a search that hangs is stopped


def coordinated(tmp_path: Path) -> Coordinator:
    space, unseen = small(), Unseen()
    record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
    return Coordinator(space, record, unseen, unseen, reuse=True, seed=0)  # type: ignore[arg-type]


def at_once() -> type[TrialTrainable]:
    """Trials with a result, which train nothing; workers get the class itself, as they cannot import this module."""

    class AtOnce(TrialTrainable):
        def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
            del assignment, config
            final = {"class_il": [50.0] * 5, "task_il": [90.0] * 5}
            yield RunDone(Result(final=final, matrix={}, weights="ab", probe="paper"))

    return AtOnce


def run(coordinator: Coordinator, tmp_path: Path, trainable: type[TrialTrainable]) -> bool:
    """Whether the search ended by itself."""

    def assign(trial: Trial) -> Assignment:
        described = trial.config.as_dict()
        split = described.pop("split")
        return Assignment(trial.key, described, split, str(tmp_path), str(tmp_path), "cpu", (), 1, 60.0)

    until = time.monotonic() + PATIENCE
    wanted: dict[str, Any] = {"cpus": 1.0, "gpus": 0.0, "max_concurrent": None, "time_budget": None}
    run_trials(coordinator, assign, lambda: time.monotonic() > until, trainable=trainable, **wanted)
    return time.monotonic() < until


def full_disk(*_: object, **__: object) -> None:
    raise sqlalchemy.exc.OperationalError("update", {}, sqlite3.OperationalError("database or disk is full"))


@pytest.mark.usefixtures("shared_ray")
def test_an_end_that_cannot_be_recorded_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tune took the error for one of the trial, and the queue waited for that trial for ever."""
    coordinator = coordinated(tmp_path)
    monkeypatch.setattr(coordinator.record._storage, "set_trial_user_attr", full_disk)
    with pytest.raises(Co2lError, match=r"disk is full.*the same command then continues"):
        run(coordinator, tmp_path, at_once())
    assert (coordinator.attempts, coordinator.queue.issued) == ({}, 0)
    again = coordinated(tmp_path)  # there is space now
    assert run(again, tmp_path, at_once())
    assert [entry.status for entry in again.record.entries.values()] == ["done"] * 4
    assert [entry.failures + entry.processes_lost for entry in again.record.entries.values()] == [0] * 4


@pytest.mark.usefixtures("shared_ray")
def test_a_trial_that_tune_drops_without_a_word_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, dropped = TuneController._on_trial_reset, list[str]()

    def reset(self: TuneController, trial: Any, success: bool) -> None:
        dropped.append(trial.trial_id)
        honest(self, trial, success and len(dropped) > 1)

    monkeypatch.setattr(TuneController, "_on_trial_reset", reset)
    coordinator = coordinated(tmp_path)
    assert run(coordinator, tmp_path, at_once())
    assert dropped
    assert [entry.status for entry in coordinator.record.entries.values()] == ["done"] * 4


@pytest.mark.usefixtures("shared_ray")
def test_a_worker_that_lacks_the_code_is_quoted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = types.ModuleType("only_here")
    exec("from co2l.search.running.trainable import TrialTrainable\nclass Unknown(TrialTrainable): ...", here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", here)
    coordinator = coordinated(tmp_path)
    assert run(coordinator, tmp_path, here.Unknown)
    assert "No module named 'only_here'" in coordinator.trouble
    assert "install" in coordinator.trouble
    assert {entry.status for entry in coordinator.record.entries.values()} == {"pending"}
    assert {entry.failures + entry.processes_lost for entry in coordinator.record.entries.values()} == {0}
