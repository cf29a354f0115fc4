"""A cell that was given out runs, and costs, from when it has its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from co2l.search import conductor as module
from co2l.search.conductor import Conductor
from co2l.search.reports import Entry
from co2l.search.space import Cell, parse
from co2l.search.study import Record


class Tracked:
    """In a tracker's place: which runs MLflow would show."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []

    def begin(self, cell: Cell) -> None:
        self.runs.append(("begin", cell.key))

    def report(self, *_: object) -> None: ...

    def end(self, cell_key: str, status: str, *_: object) -> None:
        self.runs.append((status, cell_key))


class Seen:
    def __init__(self) -> None:
        self.running = 0

    def changed(self, *, running: int, part_done: float, entries: Mapping[str, Entry]) -> None:
        del part_done, entries
        self.running = running


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def started(tmp_path: Path) -> tuple[Conductor, Tracked, Seen, list[Cell]]:
    """Two cells are given out, as Tune asks for one more than it has places."""
    space = parse({"benchmark": "seq_digits", "axes": {"eta": [0.005, 0.01, 0.02]}}, "three")
    tracked, seen = Tracked(), Seen()
    record = Record.open(f"sqlite:///{tmp_path}/study.db", "s", space)
    conductor = Conductor(space, record, tracked, seen, reuse=True, seed=0)  # type: ignore[arg-type]
    given = [conductor.next(name) for name in ("first", "second")]
    return conductor, tracked, seen, [cell for cell in given if isinstance(cell, Cell)]


def test_waiting_for_a_place_is_neither_shown_nor_paid(tmp_path: Path, clock: list[float]) -> None:
    conductor, tracked, seen, (first, second) = started(tmp_path)
    clock[0] += 5
    conductor.begun("first")
    assert seen.running == 1
    clock[0] += 30
    assert conductor.received("first", message(epoch=3)) is False
    assert seen.running == 1
    conductor.ended("first", died=True)
    conductor.begun("second")
    assert seen.running == 1
    clock[0] += 7
    conductor.stop()
    assert seen.running == 0
    spent = {key: (entry.status, entry.seconds) for key, entry in conductor.record.entries.items()}
    assert spent == {first.key: ("pending", 30.0), second.key: ("pending", 7.0)}
    assert tracked.runs == [
        ("begin", first.key),
        ("failed", first.key),
        ("begin", second.key),
        ("killed", second.key),
    ]


def test_a_cell_that_never_had_its_place(tmp_path: Path, clock: list[float]) -> None:
    """Stopped before, it leaves nothing; lost on the way there, it leaves a run that failed."""
    conductor, tracked, _, (first, second) = started(tmp_path)
    clock[0] += 9
    conductor.ended("second", died=True)
    conductor.stop()
    assert tracked.runs == [("begin", second.key), ("failed", second.key)]
    assert conductor.record.entries[first.key].losses == 0
    assert conductor.record.entries[second.key].losses == 1
    assert conductor.record.totals().seconds == 0


def message(*, epoch: int) -> dict[str, Any]:
    report = {"kind": "epoch", "task": 0, "tasks": 5, "epoch": epoch, "metrics": {}, "epochs_trained": epoch}
    return {"reports": [report], "done": False}
