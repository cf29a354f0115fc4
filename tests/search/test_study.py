"""The record through its public door, on real SQLite files, and what Optuna itself says of them."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import optuna
import pytest

from co2l.errors import Co2lError
from co2l.search.reports import Entry, Report
from co2l.search.space import Cell, Space, parse
from co2l.search.study import LOSSES, Record


def space_of(**keys: Any) -> Space:
    document = {
        "benchmark": "seq_digits",
        "settings": {"E_0": 20, "E_t": 10},
        "axes": {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "buffer_size": [50, "unlimited"]},
        **keys,
    }
    return parse(document, "space.yaml")


def result(score: float) -> dict[str, Any]:
    matrix = {"class_il": [[score]], "task_il": [[score]]}
    return {"score": score, "average": {"class_il": score - 1, "task_il": score + 1}, "matrix": matrix}


def cells_of(space: Space) -> list[Cell]:
    return list(space.cells())


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def test_every_end_is_told_as_what_it_is(url: str) -> None:
    space = space_of(retries=1, early_stop={"rungs": [1, 2]})
    record = Record.open(url, "s", space)
    done, pruned, failed, retried, interrupted, running, untouched = cells_of(space)[:7]
    for cell in (done, pruned, failed, retried, interrupted, running):
        record.begin(cell)
    record.finish(done, result(71.5), 60, 0, 3.5)
    record.rung(pruned, 1, 40.0)
    record.prune(pruned, Report("task", 1, 5, 30, {"val/score": 33.25}, 10, 20), 1.0)
    assert record.fail(failed, "diverged", 5, 0, 1.0)
    record.begin(failed)
    assert not record.fail(failed, "diverged again", 6, 1, 1.0)
    assert record.fail(retried, "a node was lost")
    record.interrupt(interrupted, 2, 0, 0.5)
    expected = ["done", "pruned", "failed", "pending", "pending", "running", "pending"]
    every = (done, pruned, failed, retried, interrupted, running, untouched)
    assert [record.status(cell) for cell in every] == expected
    assert record.totals().epochs_trained == 60 + 10 + 5 + 6 + 2
    assert record.totals().epochs_reused == 20 + 1
    assert record.totals().seconds == pytest.approx(7.0)

    trials = optuna.load_study(study_name="s", storage=url).trials
    assert len(trials) == 6  # one per cell, through all attempts
    by_cell = {trial.user_attrs["cell"]: trial for trial in trials}
    states = [by_cell[cell.key].state.name for cell in every[:-1]]
    assert states == ["COMPLETE", "PRUNED", "FAIL", "WAITING", "WAITING", "RUNNING"]
    assert by_cell[done.key].value == 71.5
    assert by_cell[done.key].params == dict(done.values)
    assert by_cell[pruned.key].intermediate_values == {1: 40.0, 2: 33.25}
    assert by_cell[pruned.key].value is None

    again = Record.open(url, "s", space)  # as after a crash: the running one is pending again, not failed
    assert [again.status(cell) for cell in every] == [*expected[:5], "pending", "pending"]
    assert again.entries[running.key].attempts == 0
    assert again.entries[retried.key].attempts == 1
    assert again.entries[failed.key].reason == "diverged again"
    assert again.entries[done.key].result == result(71.5)
    assert again.totals() == record.totals()
    again.begin(running)
    again.finish(running, result(1.0), 0, 0, 0.0)
    assert list(again.finished()) == [done.key, running.key]


def test_a_cell_that_ended_does_not_begin_again(url: str) -> None:
    space = space_of(retries=0)
    record = Record.open(url, "s", space)
    cell, other, *_ = cells_of(space)
    record.begin(cell)
    with pytest.raises(ValueError, match="running"):
        record.begin(cell)
    record.finish(cell, result(1.0), 0, 0, 0.0)
    with pytest.raises(ValueError, match="done"):
        record.begin(cell)
    with pytest.raises(ValueError, match="done"):
        record.fail(cell, "late")
    record.begin(other)
    with pytest.raises(ValueError, match="score nan"):
        record.finish(other, result(float("nan")), 0, 0, 0.0)


def test_more_retries_open_a_failed_cell_again(url: str) -> None:
    cell = cells_of(space_of())[0]
    record = Record.open(url, "s", space_of(retries=0))
    record.begin(cell)
    assert not record.fail(cell, "out of memory", 7)
    again = Record.open(url, "s", space_of(retries=2))
    assert again.status(cell) == "pending"
    again.begin(cell)
    again.finish(cell, result(50.0), 3, 0, 0.0)
    assert (again.entries[cell.key].attempts, again.totals().epochs_trained) == (1, 10)
    assert Record.open(url, "s", space_of(retries=2)).status(cell) == "done"


def test_a_lost_process_is_no_failure_while_the_cell_gets_on(url: str) -> None:
    space = space_of(retries=0)
    cell = cells_of(space)[0]
    for epoch in range(1, 3 * LOSSES):  # a machine that is gone after every epoch, and the driver with it
        record = Record.open(url, "s", space)
        record.begin(cell)
        assert record.lose(cell, epoch, 1, epoch - 1, 0.5)
        assert record.status(cell) == "pending"
    entry = record.entries[cell.key]
    assert (entry.attempts, entry.losses, entry.furthest) == (0, 0, 3 * LOSSES - 1)
    record.begin(cell)
    record.finish(cell, result(50.0), 1, 0, 0.5)
    assert record.totals().epochs_trained == 3 * LOSSES


def test_a_cell_that_always_loses_its_process_at_one_point_fails(url: str) -> None:
    space = space_of(retries=2)
    cell = cells_of(space)[0]
    record = Record.open(url, "s", space)
    for epoch in (3, *[7, 5, 7, 7, 0, 7][:LOSSES]):  # the seventh is the furthest, and never passed
        record = Record.open(url, "s", space)
        record.begin(cell)
        assert record.lose(cell, epoch)
    record.begin(cell)
    assert not record.lose(cell, 7)
    for each in (record, Record.open(url, "s", space)):
        assert each.status(cell) == "failed"
        assert f"{LOSSES} times in a row" in each.entries[cell.key].reason
    more = Record.open(url, "s", space_of(retries=3))  # a larger machine, say
    assert more.status(cell) == "pending"
    more.begin(cell)
    assert more.lose(cell, 7)


def test_the_objective_is_the_value(url: str) -> None:
    space = space_of(objective="val/task_il")
    record = Record.open(url, "s", space)
    cell = cells_of(space)[0]
    record.begin(cell)
    record.finish(cell, result(10.0), 0, 0, 0.0)
    assert record.entries[cell.key].score == 11.0


def test_a_changed_space_is_refused_with_the_difference(url: str) -> None:
    Record.open(url, "s", space_of())
    changed = space_of(settings={"E_0": 20, "E_t": 12}, seeds=[0, 1])
    with pytest.raises(Co2lError) as error:
        Record.open(url, "s", changed)
    line = str(error.value)
    assert "\n" not in line
    assert "settings.E_t: 10 → 12" in line
    assert "seeds: [0] → [0, 1]" in line
    assert "--study NEW" in line
    assert "--fresh" in line
    Record.open(url, "other", changed)
    Record.open(url, "s", space_of(retries=7, resources={"cpus": 2}))  # changes no result
    Record.open(url, "s", changed, fresh=True)
    with pytest.raises(Co2lError, match="another space"):
        Record.open(url, "s", space_of())


def test_fresh_forgets_one_study_only(url: str) -> None:
    space = space_of()
    for name in ("s", "other"):
        record = Record.open(url, name, space)
        record.begin(cells_of(space)[0])
        record.finish(cells_of(space)[0], result(1.0), 0, 0, 0.0)
    assert not Record.open(url, "s", space, fresh=True).entries
    assert len(Record.open(url, "other", space).finished()) == 1


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("not a url", "not the URL of a database"),
        ("sqlite:////nowhere/at/all/study.db", "unable to open"),
        ("postgresql+nosuchdriver://u:secret@localhost:1/db", "the storage cannot be used"),
    ],
)
def test_a_storage_that_cannot_be_used(storage: str, said: str) -> None:
    with pytest.raises(Co2lError, match=said) as error:
        Record.open(storage, "s", space_of())
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_a_locked_database_is_waited_for_and_then_named(tmp_path: Path, url: str) -> None:
    record = Record.open(url, "s", space_of(), wait=0.2)
    lock = sqlite3.connect(tmp_path / "study.db")
    lock.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    try:
        with pytest.raises(Co2lError, match="database is locked"):
            record.begin(cells_of(space_of())[0])
        with pytest.raises(Co2lError, match="database is locked"):
            Record.open(url, "new", space_of(), wait=0.2)
    finally:
        lock.close()
    assert time.monotonic() - started < 60
    record.begin(cells_of(space_of())[0])  # and it goes on once the lock is gone


def test_a_database_that_is_not_ours(tmp_path: Path, url: str) -> None:
    study = optuna.create_study(study_name="s", storage=url)
    study.tell(study.ask(), 1.0)
    with pytest.raises(Co2lError, match="not a search of ours"):
        Record.open(url, "s", space_of())
    (tmp_path / "text.db").write_text("no database, but a text that is long enough to be looked at\n" * 99)
    with pytest.raises(Co2lError, match="not a database"):
        Record.open(f"sqlite:///{tmp_path}/text.db", "s", space_of())


def test_figures(url: str) -> None:
    space = space_of()
    record = Record.open(url, "s", space)
    assert record.figures() == {}
    for i, cell in enumerate(cells_of(space)):
        record.begin(cell)
        record.finish(cell, result(10.0 * i), 0, 0, 0.0)
        if i == 0:
            assert record.figures() == {}
    figures = record.figures()
    assert figures.keys() == {"importance", "parallel_coordinate", "history"}
    names = [label.get_text() for label in figures["importance"].axes[0].get_yticklabels()]
    assert sorted(names) == ["buffer_size", "eta", "kappa"]


def test_reports_cross_as_plain_data() -> None:
    report = Report("done", 4, 5, 60, {"val/score": 70.0}, 40, 20, result(70.0))
    assert Report.from_dict({**report.to_dict(), "training_iteration": 3}) == report


def test_entries_say_what_they_cost() -> None:
    entry = Entry(1, "k", {}, 0, "done", attempts=2, reason="r", epochs_trained=3, epochs_reused=4, seconds=5.0)
    assert Entry(2, "k", {}, 0, "running", **entry.so_far()).epochs_reused == 4
