"""The archive beside the record that wrote it, on real SQLite files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest

from co2l.errors import Co2lError
from co2l.search.archive import Archive
from co2l.search.evaluation import Evaluation
from co2l.search.reports import Report
from co2l.search.space import Space, parse
from co2l.search.study import Record

DOCUMENT: dict[str, Any] = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 20},
    "axes": {"eta": [0.01, 0.02], "buffer_size": [50, "unlimited"]},
    "selection": {"per": ["buffer_size"]},
    "seeds": [0, 3],
}


def result(score: float) -> dict[str, Any]:
    return {"score": score, "average": {"class_il": score, "task_il": score}, "matrix": {}}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def fill(record: Record, scores: list[float]) -> None:
    for cell, score in zip(record.space.cells(), scores, strict=False):
        record.begin(cell)
        record.finish(cell, result(score), 10, 5, 1.5)


def test_a_study_is_read_as_it_was_written(url: str) -> None:
    space = parse(DOCUMENT, "space.yaml")
    record = Record.open(url, "s", space)
    fill(record, [10, 20, 80, 90, 30, 40, 50])
    stored = Archive(url).study("s")
    assert (stored.name, stored.kind, stored.left) == ("s", "search", 1)
    assert stored.space.canonical() == space.canonical()
    assert [cell.key for cell in stored.space.cells()] == [cell.key for cell in space.cells()]
    assert dict(stored.entries) == record.entries
    assert stored.totals() == record.totals()
    chosen = [(dict(each.values), each.score) for each in stored.choice().selected]  # 35 > 15; of the last, one lacks
    assert chosen == [({"eta": 0.02, "buffer_size": 50}, 35.0), ({"eta": 0.01, "buffer_size": "unlimited"}, 85.0)]
    assert stored.figures().keys() == {"importance", "parallel_coordinate", "history"}


def test_reading_changes_nothing(url: str) -> None:
    space = parse(DOCUMENT, "space.yaml")
    record = Record.open(url, "s", space)
    cell = next(iter(space.cells()))
    record.begin(cell)
    assert Archive(url).study("s").entries[cell.key].status == "running"
    assert [trial.state.name for trial in optuna.load_study(study_name="s", storage=url).trials] == ["RUNNING"]
    record.finish(cell, result(1.0), 0, 0, 0.0)  # and its driver goes on


@pytest.mark.parametrize("algorithm", ["random", "tpe"])
def test_a_search_that_draws_says_what_is_left(url: str, algorithm: str) -> None:
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "E_t": {"low": 2, "high": 9}}
    keys = {"axes": axes, "selection": {}, "algorithm": algorithm, "samples": 3, "early_stop": {"rungs": [1]}}
    space = parse({**DOCUMENT, **keys}, "space.yaml")
    record = Record.open(url, "s", space)
    first, second = space.cells_of({"eta": 0.01, "E_t": 5})
    record.begin(first)
    record.finish(first, result(1.0), 0, 0, 0.0)
    record.begin(second)
    assert Archive(url).study("s").left == 3  # its second seed runs
    record.prune(second, Report("task", 0, 5, 20, {"val/score": 1.0}))
    stored = Archive(url).study("s")
    assert stored.left == 2
    assert stored.space.canonical() == space.canonical()


def test_an_evaluation_is_told_from_a_search(url: str) -> None:
    evaluation = parse({**DOCUMENT, "selection": {}}, "space.yaml", Evaluation)
    fill(Record.open(url, "s.test", evaluation), [1.0] * 8)
    more = parse({**DOCUMENT, "selection": {}, "seeds": [0, 3, 4]}, "space.yaml", Evaluation)
    assert len(Record.open(url, "s.test", more).finished()) == 8  # more seeds continue it
    stored = Archive(url).study("s.test")
    assert (stored.kind, stored.space.seeds, stored.left) == ("evaluation", (0, 3), 0)
    assert stored.space.split.kind == "evaluation"
    with pytest.raises(Co2lError, match="another space"):
        Record.open(url, "s.test", parse({**DOCUMENT, "selection": {}}, "space.yaml"))


def test_what_is_not_there_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(Co2lError, match="there are no studies"):
        Archive(url)
    assert not (tmp_path / "study.db").exists()
    space: Space = parse(DOCUMENT, "space.yaml")
    Record.open(url, "seq_digits", space)
    optuna.create_study(study_name="someone else's", storage=url)
    assert Archive(url).names() == ["seq_digits"]
    with pytest.raises(Co2lError, match="unknown study 'seq_digit'") as error:
        Archive(url).study("seq_digit")
    assert "did you mean 'seq_digits'?" in str(error.value)
