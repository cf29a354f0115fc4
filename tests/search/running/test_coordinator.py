"""A trial runs, and costs, from when it has its slot; how attempts end in record and tracking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from spaces import result, space_of

from co2l.learning.progress import Position
from co2l.search.record.entries import Cost, Entry, Status
from co2l.search.record.study import MAX_PROCESSES_LOST, StudyRecord
from co2l.search.running.coordinator import Coordinator, Running
from co2l.search.running.failures import FailureLog
from co2l.search.running.queue import FINISHED
from co2l.search.running.reports import Report
from co2l.search.space.trial import Trial


class Tracked:
    """In the tracker's role: which runs MLflow would show."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []

    def begin(self, trial: Trial) -> None:
        self.runs.append(("begin", trial.key))

    def report(self, trial_key: str, report: Report) -> None: ...

    def end(self, trial_key: str, status: Status, report: Report | None = None, reason: str = "") -> None:
        del report, reason
        self.runs.append((status, trial_key))


class Seen:
    def __init__(self) -> None:
        self.running, self.parts = 0, list[float]()
        self.failures: list[tuple[str, str, str, bool]] = []

    def doing(self, what: str, *, checking: bool = False) -> None: ...

    def failed(self, trial: Trial, reason: str, log: Path | None, *, again: bool) -> None:
        self.failures.append((trial.key, reason, log.read_text() if log else "", again))

    def changed(self, running: Sequence[Running], entries: Mapping[str, Entry]) -> None:
        del entries
        self.running, self.parts = len(running), [each.part_done for each in running]


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


def started(tmp_path: Path, clock: list[float], **keys: Any) -> tuple[Coordinator, Tracked, Seen, list[Trial]]:
    """Two trials are given out, as Tune asks for one more than it has slots."""
    space = space_of({"eta": [0.005, 0.01, 0.02]}, **keys)
    tracked, seen = Tracked(), Seen()
    record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
    coordinator = Coordinator(space, record, tracked, seen, reuse=True, seed=0, clock=lambda: clock[0])
    given = [coordinator.next(name) for name in ("first", "second")]
    return coordinator, tracked, seen, [trial for trial in given if isinstance(trial, Trial)]


def test_waiting_for_a_slot_is_neither_shown_nor_paid(tmp_path: Path, clock: list[float]) -> None:
    coordinator, tracked, seen, (first, second) = started(tmp_path, clock)
    clock[0] += 5
    coordinator.begun("first")
    assert seen.running == 1
    clock[0] += 30
    assert coordinator.received("first", [report(epoch=3)]) is False
    assert seen.running == 1
    coordinator.ended("first", died=True)
    coordinator.begun("second")
    assert seen.running == 1
    clock[0] += 7
    coordinator.stop()
    assert seen.running == 0
    spent = {key: (entry.status, entry.cost.seconds) for key, entry in coordinator.record.entries.items()}
    assert spent == {first.key: ("pending", 30.0), second.key: ("pending", 7.0)}
    assert tracked.runs == [
        ("begin", first.key),
        ("pending", first.key),
        ("begin", second.key),
        ("pending", second.key),
    ]


def test_a_trial_that_never_had_its_slot(tmp_path: Path, clock: list[float]) -> None:
    """Stopped before, it leaves nothing; lost on the way there, it leaves a run that was interrupted."""
    coordinator, tracked, _, (first, second) = started(tmp_path, clock)
    clock[0] += 9
    coordinator.ended("second", died=True)
    coordinator.stop()
    assert tracked.runs == [("begin", second.key), ("pending", second.key)]
    assert first.key not in coordinator.record.entries
    assert coordinator.record.entries[second.key].processes_lost == 1
    assert coordinator.record.cost().seconds == 0


def test_a_trial_is_as_far_as_it_says(tmp_path: Path, clock: list[float]) -> None:
    """Its position within an epoch, or its last report where there is no position."""
    coordinator, _, seen, _ = started(tmp_path, clock)
    for name in ("first", "second"):
        coordinator.begun(name)
    assert seen.parts == [0.0, 0.0]
    coordinator.received("first", [report(epoch=3)])
    coordinator.received("second", [], position=Position(0, 5, 2, 20, 3, 4, part_done=1.75 / 60))
    assert seen.parts == [3 / 60, 1.75 / 60]


def test_a_failed_attempt_is_said_at_once_with_its_log(tmp_path: Path, clock: list[float]) -> None:
    space, seen = space_of({"eta": [0.005]}, retries=1), Seen()
    record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
    log = FailureLog(tmp_path / "logs")
    coordinator = Coordinator(space, record, Tracked(), seen, reuse=True, seed=0, failures=log, clock=lambda: clock[0])
    trials = []
    for name, reason in (("first", "Traceback\n  a line\nValueError: one"), ("second", "ValueError: two")):
        trials.append(coordinator.next(name))
        coordinator.begun(name)
        coordinator.received(name, [], failed=reason)
        coordinator.ended(name, died=False)
    (first, _) = trials
    assert isinstance(first, Trial)
    assert [(key, again) for key, _, _, again in seen.failures] == [(first.key, True), (first.key, False)]
    assert seen.failures[0][2].endswith("Traceback\n  a line\nValueError: one\n\n")
    assert seen.failures[1][2].count(f"trial {first.key}") == 2, "an entry for each attempt"
    assert '"eta": 0.005' in log.path(first.key).read_text()


def report(*, epoch: int, **more: Any) -> Report:
    return Report("epoch", 0, 5, epoch, {}, epochs_trained=epoch, **more)


def test_every_end_is_recorded_and_tracked_in_the_same_words(tmp_path: Path, clock: list[float]) -> None:
    rules = {"rungs": [1], "survivors": 0.5, "min_trials": 2}
    coordinator, tracked, _, (first, second) = started(tmp_path, clock, retries=1, early_stop=rules)
    for name in ("first", "second"):
        coordinator.begun(name)
    ends = Report("done", 4, 5, 60, {}, 60, 0, result(70.0))
    assert not coordinator.received("first", [Report("task", 0, 5, 20, {"val_fast/score": 70.0})])
    assert not coordinator.received("first", [ends])
    coordinator.ended("first", died=False)
    assert coordinator.received("second", [Report("task", 0, 5, 20, {"val_fast/score": 60.0})])
    coordinator.ended("second", died=False)
    third = coordinator.next("third")
    assert isinstance(third, Trial)
    for name in ("third", "fourth"):
        if name == "fourth":
            assert coordinator.next(name) is third
        coordinator.begun(name)
        coordinator.received(name, [report(epoch=2)], failed="the loss became nan")
        coordinator.ended(name, died=False)
    states = {key: entry.status for key, entry in coordinator.record.entries.items()}
    assert states == {first.key: "done", second.key: "pruned", third.key: "failed"}
    assert [status for status, key in tracked.runs if key == third.key] == ["begin", "pending", "begin", "failed"]
    assert tracked.runs[2:4] == [("done", first.key), ("pruned", second.key)]
    assert coordinator.record.entries[second.key].rungs == {1: 60.0}
    assert coordinator.record.entries[third.key].cost.epochs_trained == 4
    assert coordinator.queue.unfinished == 0


def test_a_trial_that_no_worker_can_configure_is_tried_once(tmp_path: Path, clock: list[float]) -> None:
    coordinator, tracked, _, (first, _) = started(tmp_path, clock, retries=2)
    coordinator.begun("first")
    coordinator.received("first", [], failed="unknown benchmark 'seq_digits'", fault="hopeless")
    coordinator.ended("first", died=False)
    entry = coordinator.record.entries[first.key]
    assert (entry.status, entry.reason) == ("failed", "unknown benchmark 'seq_digits'")
    assert [status for status, key in tracked.runs if key == first.key] == ["begin", "failed"]


def test_a_trial_that_lost_its_process_comes_again_after_the_others(tmp_path: Path, clock: list[float]) -> None:
    coordinator, _, _, (first, second) = started(tmp_path, clock, retries=0)
    coordinator.begun("first")
    coordinator.ended("first", died=True)
    coordinator.begun("second")
    coordinator.received("second", [Report("done", 4, 5, 60, {}, 60, 0, result(70.0))])
    coordinator.ended("second", died=False)
    order = []
    for i in range(MAX_PROCESSES_LOST):
        trial = coordinator.next(f"{i}")
        assert isinstance(trial, Trial)
        order.append(trial.key)
        coordinator.begun(f"{i}")
        if i == 0:
            coordinator.received(f"{i}", [Report("done", 4, 5, 60, {}, 60, 0, result(70.0))])
        coordinator.ended(f"{i}", died=i > 0)
    assert order[0] not in (first.key, second.key)  # the third trial of the grid
    assert order[1:] == [first.key] * (MAX_PROCESSES_LOST - 1)
    assert coordinator.record.entries[first.key].status == "failed"
    assert coordinator.next("last") is FINISHED


def test_what_a_killed_driver_s_attempts_have_trained_is_counted_up_to_their_last_state(
    tmp_path: Path, clock: list[float]
) -> None:
    coordinator, _, _, (first, _) = started(tmp_path, clock)
    for name in ("first", "second"):
        coordinator.begun(name)
    clock[0] += 10
    coordinator.received("first", [report(epoch=2), Report("saved", 0, 5, 2, {}, epochs_trained=2)])
    coordinator.received("second", [report(epoch=1)])
    clock[0] += 10
    coordinator.received("first", [report(epoch=3)])
    again, _, _, _ = started(tmp_path, clock)  # the driver was killed
    assert again.record.cost() == Cost(2, 0, 10.0)
    again.begun("first")
    again.received("first", [Report("saved", 0, 5, 3, {}, epochs_trained=1)])
    again.received("first", [Report("done", 4, 5, 60, {}, 58, 2, result(70.0))])
    clock[0] += 5
    again.ended("first", died=False)
    assert again.record.entries[first.key].cost == Cost(2 + 58, 2, 10.0 + 5.0)
    third, _, _, _ = started(tmp_path, clock)
    assert third.record.cost() == again.record.cost()
