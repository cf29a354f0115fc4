"""A node that leaves: its trials save their states at the next step and begin nothing more."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from co2l.learning.store import Store
from co2l.search.running import leaving, trainable
from co2l.search.running.leaving import LEAVING, VARIABLE, busy, idle, leave
from co2l.search.running.trainable import Assignment, TrialTrainable


class EndOfProcessError(Exception):
    pass


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "node"))
    (tmp_path / "node").mkdir()

    def end() -> None:
        raise EndOfProcessError

    monkeypatch.setattr(trainable, "wait_for_the_end", end)
    return tmp_path / "node"


def begun(store: Path, **settings: Any) -> TrialTrainable:
    config = {"benchmark": "seq_digits", "method": "co2l", "seed": 0, "settings": {"E_0": 3, "E_t": 2, **settings}}
    split = {"kind": "search", "fraction": 0.1, "seed": 0}
    assignment = Assignment("t", config, split, str(store), ".", "cpu", (), 1, 3600.0)
    made = TrialTrainable.__new__(TrialTrainable)
    made._begin(assignment.as_dict())
    return made


def end_of(trial: TrialTrainable) -> list[dict[str, Any]]:
    """Step until the process would end; what it reported."""
    reports: list[dict[str, Any]] = []
    with contextlib.suppress(EndOfProcessError):
        for _ in range(10):
            reports += trial.step()["reports"]
        pytest.fail("it went on")
    return reports


def test_the_state_is_saved_where_the_last_report_was(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainable, "TOGETHER_SECONDS", -1)  # a trip after every step
    trial = begun(tmp_path / "store")
    assert trial.step()["reports"] == []  # the first step of the first epoch
    assert not list((tmp_path / "store").glob("*/*.partial"))
    (node / LEAVING).touch()
    assert end_of(trial) == []
    (path,) = (tmp_path / "store").glob("*/*.partial")
    state = Store(str(tmp_path / "store")).load_state(f"{path.parent.name}/{path.stem}", partial=True)
    assert state is not None
    assert state["epoch"] == 1
    assert not list(node.glob("busy-*"))


def test_an_epoch_that_just_ended_is_not_lost(node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainable, "TOGETHER_SECONDS", -1)
    trial = begun(tmp_path / "store")
    while not trial.step()["reports"]:  # the first epoch's
        pass
    (node / LEAVING).touch()
    assert end_of(trial) == []
    (path,) = (tmp_path / "store").glob("*/*.partial")
    state = Store(str(tmp_path / "store")).load_state(f"{path.parent.name}/{path.stem}", partial=True)
    assert state is not None
    assert state["epoch"] == 2


def test_a_node_waits_for_trials_that_run_and_only_for_these(node: Path) -> None:
    asked: list[bool] = []

    def needed() -> bool:
        asked.append(leaving.leaving())
        idle()  # what the trial does meanwhile
        return True

    busy()
    assert (node / f"busy-{os.getpid()}").exists()
    (node / "busy-999999999").touch()  # of a process that is gone
    leave(node, 60, needed)
    assert asked == [True]


def test_a_node_does_not_wait_for_what_nobody_needs(node: Path) -> None:
    busy()
    leave(node, 60, lambda: False)


def test_elsewhere_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    busy()
    idle()
    assert not leaving.leaving()
