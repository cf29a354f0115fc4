"""The reader beside the record that wrote it, on real SQLite files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
from spaces import finish, result

from co2l.errors import Co2lError
from co2l.search.record.entries import Cost
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.selection.rule import select
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.space import Space, parse

DOCUMENT: dict[str, Any] = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 20},
    "axes": {"eta": [0.01, 0.02], "buffer_size": [50, "unlimited"]},
    "selection": {"per": ["buffer_size"]},
    "seeds": [0, 3],
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def fill(record: StudyRecord, scores: list[float]) -> None:
    for trial, score in zip(record.space.trials(), scores, strict=False):
        finish(record, trial, score, Cost(10, 5, 1.5))


def test_a_study_is_read_as_it_was_written(url: str) -> None:
    space = parse(DOCUMENT, "space.yaml")
    record = StudyRecord.open(url, "s", space)
    fill(record, [10, 20, 80, 90, 30, 40, 50])
    stored = StudyReader(url).study("s")
    assert (stored.name, stored.kind, stored.left) == ("s", "search", 1)
    assert stored.space.canonical() == space.canonical()
    assert [trial.key for trial in stored.space.trials()] == [trial.key for trial in space.trials()]
    assert dict(stored.entries) == record.entries
    assert stored.cost() == record.cost()
    selected = select(stored.space, stored.entries.values()).selected
    chosen = [(dict(each.values), each.score) for each in selected]  # 35 > 15; of the last, one lacks
    assert chosen == [({"eta": 0.02, "buffer_size": 50}, 35.0), ({"eta": 0.01, "buffer_size": "unlimited"}, 85.0)]
    assert stored.importance() == {"eta": 1.0}


def test_reading_changes_nothing(url: str) -> None:
    space = parse(DOCUMENT, "space.yaml")
    record = StudyRecord.open(url, "s", space)
    trial = next(iter(space.trials()))
    record.begin(trial)
    assert StudyReader(url).study("s").entries[trial.key].status == "running"
    assert [trial.state.name for trial in optuna.load_study(study_name="s", storage=url).trials] == ["RUNNING"]
    record.finish(trial, result(1.0), Cost())  # and its driver goes on


@pytest.mark.parametrize("algorithm", ["random", "tpe", "qmc"])
def test_a_search_that_draws_says_what_is_left(url: str, algorithm: str) -> None:
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "E_t": {"low": 2, "high": 9}}
    keys = {"axes": axes, "selection": {}, "algorithm": algorithm, "samples": 3, "early_stop": {"rungs": [1]}}
    space = parse({**DOCUMENT, **keys}, "space.yaml")
    record = StudyRecord.open(url, "s", space)
    first, second = space.trials_of({"eta": 0.01, "E_t": 5})
    record.begin(first)
    record.finish(first, result(1.0), Cost())
    record.begin(second)
    assert StudyReader(url).study("s").left == 3  # its second seed runs
    record.prune(second, Cost())
    stored = StudyReader(url).study("s")
    assert stored.left == 2
    assert stored.space.canonical() == space.canonical()


def test_an_evaluation_is_told_from_a_search(url: str) -> None:
    evaluation = parse({**DOCUMENT, "selection": {}}, "space.yaml", Evaluation)
    fill(StudyRecord.open(url, "s.test", evaluation), [1.0] * 8)
    more = parse({**DOCUMENT, "selection": {}, "seeds": [0, 3, 4]}, "space.yaml", Evaluation)
    assert len(StudyRecord.open(url, "s.test", more).finished()) == 8  # more seeds continue it
    stored = StudyReader(url).study("s.test")
    assert (stored.kind, stored.space.seeds, stored.left) == ("evaluation", (0, 3), 0)
    assert stored.space.split.kind == "evaluation"
    with pytest.raises(Co2lError, match="another space"):
        StudyRecord.open(url, "s.test", parse({**DOCUMENT, "selection": {}}, "space.yaml"))


def test_what_is_not_there_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(Co2lError, match="there are no studies"):
        StudyReader(url)
    assert not (tmp_path / "study.db").exists()
    space: Space = parse(DOCUMENT, "space.yaml")
    StudyRecord.open(url, "seq_digits", space)
    optuna.create_study(study_name="someone else's", storage=url)
    assert StudyReader(url).names() == ["seq_digits"]
    with pytest.raises(Co2lError, match="unknown study 'seq_digit'") as error:
        StudyReader(url).study("seq_digit")
    assert "did you mean 'seq_digits'?" in str(error.value)
