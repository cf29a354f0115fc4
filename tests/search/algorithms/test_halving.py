"""Which trials continue at a rung, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spaces import space_of as small_space

from co2l.search.algorithms.early_stopping import EarlyStopper, early_stopper
from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


def space_of(**keys: Any) -> Space:
    axes = {"eta": [0.001 * (1 + i) for i in range(12)], "buffer_size": [50, 100]}
    return small_space(axes, **{"early_stop": {"rungs": [1, 3], "survivors": 0.5, "min_trials": 4}, **keys})


def decide(record: StudyRecord, stopper: EarlyStopper, trial: Trial, task: int, score: float) -> str:
    """As the coordinator does: the score is recorded first."""
    record.rung(trial, task + 1, score)
    return stopper.decide(trial, task + 1, score)


def begun(space: Space, url: str | None = None) -> tuple[StudyRecord, EarlyStopper, list[Trial]]:
    record = StudyRecord.open(url, "s", space)
    trials = list(space.trials())
    for trial in trials:
        record.begin(trial)
    return record, early_stopper(space, record.entries.values()), trials


def with_buffer(trials: list[Trial], size: int) -> list[Trial]:
    return [trial for trial in trials if trial.values["buffer_size"] == size]


@pytest.mark.parametrize(
    ("survivors", "scores"),
    [(0.5, [10, 20, 30, 15, 35, 5, 31, 31]), (0.5, [50, 40, 30, 20, 10]), (0.34, [1, 2, 3, 4, 3.5, 5])],
)
def test_the_best_share_goes_on(survivors: float, scores: list[float]) -> None:
    space = space_of(early_stop={"rungs": [1], "survivors": survivors, "min_trials": 4})
    record, rungs, trials = begun(space)
    seen: list[float] = []
    for trial, score in zip(trials, scores, strict=False):
        seen.append(score)
        may_stay = max(1, int(survivors * len(seen)))
        expected = len(seen) < 4 or sorted(seen, reverse=True)[may_stay - 1] <= score
        assert (decide(record, rungs, trial, 0, score) == "continue") == expected


def test_by_hand() -> None:
    record, rungs, trials = begun(space_of())
    decided = [
        decide(record, rungs, trial, 0, score)
        for trial, score in zip(trials, [10, 20, 30, 15, 35, 5, 31], strict=False)
    ]
    # the first three are too few to compare; 15 is third of four, 35 first of five, 5 last of six, 31 second of seven
    assert decided == ["continue", "continue", "continue", "stop", "continue", "stop", "continue"]


def test_only_the_same_number_of_tasks_is_compared() -> None:
    record, rungs, trials = begun(space_of())
    for trial, score in zip(trials, [90, 91, 92, 93, 94], strict=False):
        decide(record, rungs, trial, 0, score)
    assert decide(record, rungs, trials[4], 2, 1.0) == "continue"  # the first after three tasks, where all score less
    assert decide(record, rungs, trials[5], 1, 0.0) == "continue"  # there is no rung after two
    assert decide(record, rungs, trials[5], 0, 50.0) == "stop"


def test_off_means_off() -> None:
    record, rungs, trials = begun(space_of(early_stop=False))
    decided = {decide(record, rungs, trial, t, -float(i)) for i, trial in enumerate(trials) for t in range(4)}
    assert decided == {"continue"}


@pytest.mark.parametrize("selection", [{"per": ["buffer_size"]}, {"mean_over": ["buffer_size"]}])
def test_a_small_buffer_is_not_compared_with_a_large_one(selection: dict[str, Any]) -> None:
    record, rungs, trials = begun(space_of(selection=selection))
    for i, trial in enumerate(with_buffer(trials, 100)[:6]):
        decide(record, rungs, trial, 0, 90.0 + i)
    small = with_buffer(trials, 50)[6:]
    assert [decide(record, rungs, trial, 0, 10.0 - i) for i, trial in enumerate(small)] == ["continue"] * 3 + [
        "stop"
    ] * 3


def test_a_configuration_goes_on_or_stops_as_a_whole() -> None:
    space = space_of(selection={"mean_over": ["buffer_size"]}, seeds=[0, 1])
    record, rungs, trials = begun(space)
    configurations: dict[Any, list[Trial]] = {}
    for trial in trials:
        configurations.setdefault(trial.values["eta"], []).append(trial)
    decided = []
    for i, siblings in enumerate(configurations.values()):
        scores = [80.0 - i, 1.0, 99.0, 50.0]  # the first that comes decides
        decided.append({decide(record, rungs, trial, 0, score) for trial, score in zip(siblings, scores, strict=True)})
    assert all(len(decisions) == 1 for decisions in decided)
    assert {"stop"} in decided
    assert decided[0] == {"continue"}


def test_asking_again_changes_nothing_even_after_a_restart(tmp_path: Path) -> None:
    url, space = f"sqlite:///{tmp_path}/study.db", space_of()
    record, rungs, trials = begun(space, url)
    scores = [10.0, 20.0, 30.0, 15.0, 35.0, 5.0, 31.0]
    decided = [decide(record, rungs, trial, 0, score) for trial, score in zip(trials, scores, strict=False)]
    assert [decide(record, rungs, trial, 0, score) for trial, score in zip(trials, scores, strict=False)] == decided
    for trial, decision in zip(trials, decided, strict=False):
        if decision == "stop":
            record.prune(trial, Cost())
    reopened = StudyRecord.open(url, "s", space)
    again = early_stopper(space, reopened.entries.values())
    for trial in trials:
        if reopened.status(trial) == "pending":
            reopened.begin(trial)
    assert [decide(reopened, again, trial, 0, score) for trial, score in zip(trials, scores, strict=False)] == decided
    assert decide(record, rungs, trials[7], 0, 29.0) == "continue"  # fourth of eight
    assert decide(reopened, again, trials[7], 0, 29.0) == "continue"
    assert decide(reopened, again, trials[8], 0, 29.5) == "continue"  # fourth of nine
    assert decide(reopened, again, trials[9], 0, 19.0) == "stop"
