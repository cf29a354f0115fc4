"""How a search that has to end lets its trials report once more, and where Ray's messages go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from ray.tune.search import Searcher

from co2l.learning.progress import Position
from co2l.search.running import engine
from co2l.search.running.engine import ReportStopper, Shutdown, TrialSearcher
from co2l.search.running.queue import FINISHED
from co2l.search.running.reports import Report

POSITION = Position(0, 5, 1, 20, 3, 4, 0.1, views_per_second=100.0, seconds_left=12.0)


class Heard:
    """In the coordinator's role: notes the reports it gets, and has no trials."""

    running = waiting = 0

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int], str]] = []

    def next(self, trial_id: str) -> object:
        raise AssertionError(f"trial {trial_id} asks for a trial")

    def received(
        self, trial_id: str, reports: Iterable[Report], failed: str, fault: str, *, position: Position | None
    ) -> bool:
        assert (fault, position) == ("own", POSITION)
        self.heard.append((trial_id, [report.epoch for report in reports], failed))
        return False


def message(epoch: int, failed: str = "") -> dict[str, Any]:
    """As Tune hands on what a trial reports, with keys that Tune adds."""
    report = Report("epoch", 0, 5, epoch, {"lr": 0.1})
    return {"reports": [report.to_dict()], "failed": failed, "training_iteration": 3, "position": POSITION.as_dict()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])
    return now


def test_trials_of_a_search_that_has_to_end_are_heard_once_more(clock: list[float]) -> None:
    asked: list[bool] = []
    shutdown, heard = Shutdown(lambda: bool(asked), None), Heard()
    stopper = ReportStopper(heard, shutdown)  # type: ignore[arg-type]
    assert stopper("first", message(1)) is False
    asked.append(True)
    assert stopper.stop_all() is False  # Tune would drop what they are about to report
    assert stopper("first", message(2)) is True
    searcher = TrialSearcher(heard, lambda trial: trial, shutdown, 1)  # type: ignore[arg-type, return-value]
    assert searcher.suggest("third") == Searcher.FINISHED
    clock[0] += engine.SHUTDOWN_SECONDS - 0.1
    assert stopper.stop_all() is False
    assert stopper("second", message(3, failed="nan")) is True
    clock[0] += 0.2
    assert stopper.stop_all() is True  # the others are in the middle of something long
    assert heard.heard == [("first", [1], ""), ("first", [2], ""), ("second", [3], "nan")]


@pytest.mark.parametrize(
    ("running", "waiting"),
    [(0, 3), (1, 2), (2, 1), (3, 1), (4, 1)],  # all slots are asked for; then one trial is held ready
)
def test_no_more_trials_wait_than_there_are_slots_and_one(running: int, waiting: int) -> None:
    class Busy(Heard):
        def next(self, trial_id: str) -> object:
            del trial_id
            return FINISHED

    busy = Busy()
    searcher = TrialSearcher(busy, lambda trial: trial, Shutdown(lambda: False, None), 3)  # type: ignore[arg-type, return-value]
    busy.running, busy.waiting = running, waiting - 1
    assert searcher.suggest("next") == Searcher.FINISHED  # the coordinator was asked
    busy.waiting = waiting
    assert searcher.suggest("next") is None


def test_the_time_budget_counts_from_the_start(clock: list[float]) -> None:
    shutdown = Shutdown(lambda: False, 30.0)
    clock[0] += 29.9
    assert not shutdown
    clock[0] += 0.1
    assert shutdown
    assert not shutdown.overdue
    clock[0] += engine.SHUTDOWN_SECONDS + 0.1
    assert shutdown.overdue


def test_what_ray_tells_is_no_part_of_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(engine, "_check_reachable", lambda _: None)
    monkeypatch.setattr(engine.ray, "init", lambda **_: print("joined"))
    monkeypatch.setattr(engine.ray, "shutdown", lambda: print("a worker died [repeated 2x]"))  # held back till then
    with engine.connected("head:6379"):
        print("a worker died")
    print("{}")
    captured = capsys.readouterr()
    assert captured.out == "{}\n"
    assert captured.err.splitlines() == ["joined", "a worker died", "a worker died [repeated 2x]"]


def test_a_ray_that_runs_already_is_used_and_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(engine.ray, "init", lambda **_: pytest.fail("a second Ray is started"))
    monkeypatch.setattr(engine.ray, "shutdown", lambda: pytest.fail("another's Ray is stopped"))
    with engine.connected(None):
        pass
