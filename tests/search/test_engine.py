"""How a search that shall end lets its trials report once more, and where Ray's words go."""

from __future__ import annotations

from typing import Any

import pytest
from ray.tune.search import Searcher

from co2l.search import engine
from co2l.search.engine import CellSearcher, Leaving, Messages
from co2l.search.queue import FINISHED


class Heard:
    """In a conductor's place: notes what it is told, and has no cells."""

    running = waiting = 0

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []

    def next(self, trial_id: str) -> object:
        raise AssertionError(f"trial {trial_id} asks for a cell")

    def received(self, trial_id: str, message: Any) -> bool:
        self.messages.append((trial_id, message))
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(engine.time, "monotonic", lambda: now[0])
    return now


def test_trials_of_a_search_that_shall_end_are_heard_once_more(clock: list[float]) -> None:
    asked: list[bool] = []
    leaving, heard = Leaving(lambda: bool(asked), None), Heard()
    messages = Messages(heard, leaving)  # type: ignore[arg-type]
    assert messages("first", {"reports": 1}) is False
    asked.append(True)
    assert messages.stop_all() is False  # Tune would drop what they are about to report
    assert messages("first", {"reports": 2}) is True
    searcher = CellSearcher(heard, lambda cell: cell, leaving, 1)  # type: ignore[arg-type, return-value]
    assert searcher.suggest("third") == Searcher.FINISHED
    clock[0] += engine.LEAVE_SECONDS - 0.1
    assert messages.stop_all() is False
    assert messages("second", {"reports": 3}) is True
    clock[0] += 0.2
    assert messages.stop_all() is True  # the others are in the middle of something long
    assert heard.messages == [("first", {"reports": 1}), ("first", {"reports": 2}), ("second", {"reports": 3})]


@pytest.mark.parametrize(
    ("running", "waiting"),
    [(0, 3), (1, 2), (2, 1), (3, 1), (4, 1)],  # all places are asked for; then one trial is held ready
)
def test_no_more_trials_wait_than_there_are_places_and_one(running: int, waiting: int) -> None:
    class Busy(Heard):
        def next(self, trial_id: str) -> object:
            del trial_id
            return FINISHED

    busy = Busy()
    searcher = CellSearcher(busy, lambda cell: cell, Leaving(lambda: False, None), 3)  # type: ignore[arg-type, return-value]
    busy.running, busy.waiting = running, waiting - 1
    assert searcher.suggest("next") == Searcher.FINISHED  # the conductor was asked
    busy.waiting = waiting
    assert searcher.suggest("next") is None


def test_the_time_budget_counts_from_the_start(clock: list[float]) -> None:
    leaving = Leaving(lambda: False, 30.0)
    clock[0] += 29.9
    assert not leaving
    clock[0] += 0.1
    assert leaving
    assert not leaving.overdue
    clock[0] += engine.LEAVE_SECONDS + 0.1
    assert leaving.overdue


def test_what_ray_tells_is_no_part_of_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine.ray, "init", lambda **_: print("joined"))
    monkeypatch.setattr(engine.ray, "shutdown", lambda: print("a worker died [repeated 2x]"))  # held back till then
    with engine.connected(None):
        print("a worker died")
    print("{}")
    told = capsys.readouterr()
    assert told.out == "{}\n"
    assert told.err.splitlines() == ["joined", "a worker died", "a worker died [repeated 2x]"]
