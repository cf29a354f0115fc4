"""Who goes on at a rung, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from co2l.search.reports import Report
from co2l.search.rungs import Rungs
from co2l.search.space import Cell, Space, parse
from co2l.search.study import Record


def space_of(**keys: Any) -> Space:
    document = {
        "benchmark": "seq_digits",
        "settings": {"E_0": 20, "E_t": 10},
        "axes": {"eta": [0.001 * (1 + i) for i in range(12)], "buffer_size": [50, 100]},
        "early_stop": {"rungs": [1, 3], "keep": 0.5, "min_cells": 4},
        **keys,
    }
    return parse(document, "space.yaml")


def begun(space: Space, url: str | None = None) -> tuple[Record, Rungs, list[Cell]]:
    record = Record.open(url, "s", space)
    cells = list(space.cells())
    for cell in cells:
        record.begin(cell)
    return record, Rungs(space, record), cells


def with_buffer(cells: list[Cell], size: int) -> list[Cell]:
    return [cell for cell in cells if cell.values["buffer_size"] == size]


@pytest.mark.parametrize(
    ("keep", "scores"),
    [(0.5, [10, 20, 30, 15, 35, 5, 31, 31]), (0.5, [50, 40, 30, 20, 10]), (0.34, [1, 2, 3, 4, 3.5, 5])],
)
def test_the_best_share_goes_on(keep: float, scores: list[float]) -> None:
    space = space_of(early_stop={"rungs": [1], "keep": keep, "min_cells": 4})
    _, rungs, cells = begun(space)
    seen: list[float] = []
    for cell, score in zip(cells, scores, strict=False):
        seen.append(score)
        may_stay = max(1, int(keep * len(seen)))
        expected = len(seen) < 4 or sorted(seen, reverse=True)[may_stay - 1] <= score
        assert (rungs.decision(cell, 0, score) == "continue") == expected


def test_by_hand() -> None:
    _, rungs, cells = begun(space_of())
    told = [rungs.decision(cell, 0, score) for cell, score in zip(cells, [10, 20, 30, 15, 35, 5, 31], strict=False)]
    # the first three are too few to compare; 15 is third of four, 35 first of five, 5 last of six, 31 second of seven
    assert told == ["continue", "continue", "continue", "stop", "continue", "stop", "continue"]


def test_only_the_same_number_of_tasks_is_compared() -> None:
    _, rungs, cells = begun(space_of())
    for cell, score in zip(cells, [90, 91, 92, 93, 94], strict=False):
        rungs.decision(cell, 0, score)
    assert rungs.decision(cells[4], 2, 1.0) == "continue"  # the first after three tasks, where all score less
    assert rungs.decision(cells[5], 1, 0.0) == "continue"  # there is no rung after two
    assert rungs.decision(cells[5], 0, 50.0) == "stop"


def test_off_means_off() -> None:
    record, rungs, cells = begun(space_of(early_stop=False))
    assert {rungs.decision(cell, task, -float(i)) for i, cell in enumerate(cells) for task in range(4)} == {"continue"}
    assert not any(entry.rungs for entry in record.entries.values())


@pytest.mark.parametrize("selection", [{"per": ["buffer_size"]}, {"mean_over": ["buffer_size"]}])
def test_a_small_buffer_is_not_compared_with_a_large_one(selection: dict[str, Any]) -> None:
    _, rungs, cells = begun(space_of(selection=selection))
    for i, cell in enumerate(with_buffer(cells, 100)[:6]):
        rungs.decision(cell, 0, 90.0 + i)
    small = with_buffer(cells, 50)[6:]
    assert [rungs.decision(cell, 0, 10.0 - i) for i, cell in enumerate(small)] == ["continue"] * 3 + ["stop"] * 3


def test_a_configuration_goes_on_or_stops_as_a_whole() -> None:
    space = space_of(selection={"mean_over": ["buffer_size"]}, seeds=[0, 1])
    _, rungs, cells = begun(space)
    configurations: dict[Any, list[Cell]] = {}
    for cell in cells:
        configurations.setdefault(cell.values["eta"], []).append(cell)
    told = []
    for i, siblings in enumerate(configurations.values()):
        scores = [80.0 - i, 1.0, 99.0, 50.0]  # the first that comes decides
        told.append({rungs.decision(cell, 0, score) for cell, score in zip(siblings, scores, strict=True)})
    assert all(len(decisions) == 1 for decisions in told)
    assert {"stop"} in told
    assert told[0] == {"continue"}


def test_asking_again_changes_nothing_even_after_a_restart(tmp_path: Path) -> None:
    url, space = f"sqlite:///{tmp_path}/study.db", space_of()
    record, rungs, cells = begun(space, url)
    scores = [10.0, 20.0, 30.0, 15.0, 35.0, 5.0, 31.0]
    told = [rungs.decision(cell, 0, score) for cell, score in zip(cells, scores, strict=False)]
    assert [rungs.decision(cell, 0, score) for cell, score in zip(cells, scores, strict=False)] == told
    for cell, score, decision in zip(cells, scores, told, strict=False):
        if decision == "stop":
            record.prune(cell, Report("task", 0, 5, 20, {"val/score": score}))
    reopened = Record.open(url, "s", space)
    again = Rungs(space, reopened)
    for cell in cells:
        if reopened.status(cell) == "pending":
            reopened.begin(cell)
    assert [again.decision(cell, 0, score) for cell, score in zip(cells, scores, strict=False)] == told
    assert again.decision(cells[7], 0, 29.0) == rungs.decision(cells[7], 0, 29.0) == "continue"  # fourth of eight
    assert again.decision(cells[8], 0, 29.5) == "continue"  # fourth of nine
    assert again.decision(cells[9], 0, 19.0) == "stop"
