"""The record through its public door, on real SQLite files, and what Optuna itself says of them."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
from spaces import finish, result
from spaces import space_of as small_space

from co2l.errors import Co2lError
from co2l.search.record.entries import Cost, Entry
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import MAX_PROCESSES_LOST, StudyRecord
from co2l.search.space.evaluation import of_space
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


def space_of(**keys: Any) -> Space:
    return small_space({"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "buffer_size": [50, "unlimited"]}, **keys)


def trials_of(space: Space) -> list[Trial]:
    return list(space.trials())


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def test_every_end_is_told_as_what_it_is(url: str) -> None:
    space = space_of(retries=1, early_stop={"rungs": [1, 2]})
    record = StudyRecord.open(url, "s", space)
    done, pruned, failed, retried, interrupted, running, untouched = trials_of(space)[:7]
    for trial in (done, pruned, failed, retried, interrupted, running):
        record.begin(trial)
    record.finish(done, result(71.5), Cost(60, 0, 3.5))
    record.rung(pruned, 1, 40.0)
    record.rung(pruned, 2, 33.25)
    record.prune(pruned, Cost(10, 20, 1.0))
    assert record.fail(failed, "diverged", Cost(5, 0, 1.0))
    record.begin(failed)
    assert not record.fail(failed, "diverged again", Cost(6, 1, 1.0))
    assert record.fail(retried, "a node was lost", Cost())
    record.interrupt(interrupted, Cost(2, 0, 0.5))
    expected = ["done", "pruned", "failed", "pending", "pending", "running", "pending"]
    every = (done, pruned, failed, retried, interrupted, running, untouched)
    assert [record.status(trial) for trial in every] == expected
    assert record.cost().epochs_trained == 60 + 10 + 5 + 6 + 2
    assert record.cost().epochs_reused == 20 + 1
    assert record.cost().seconds == pytest.approx(7.0)

    trials = optuna.load_study(study_name="s", storage=url).trials
    assert len(trials) == 6  # one per trial, through all attempts
    by_trial = {trial.user_attrs["trial"]: trial for trial in trials}
    states = [by_trial[trial.key].state.name for trial in every[:-1]]
    assert states == ["COMPLETE", "PRUNED", "FAIL", "WAITING", "WAITING", "RUNNING"]
    assert by_trial[done.key].value == 71.5
    assert by_trial[done.key].params == dict(done.values)
    assert by_trial[pruned.key].intermediate_values == {1: 40.0, 2: 33.25}
    assert by_trial[pruned.key].value is None

    again = StudyRecord.open(url, "s", space)  # as after a crash: the running one is pending again, not failed
    assert [again.status(trial) for trial in every] == [*expected[:5], "pending", "pending"]
    assert again.entries[running.key].failures == 0
    assert again.entries[retried.key].failures == 1
    assert again.entries[failed.key].reason == "diverged again"
    assert again.entries[done.key].result == result(71.5)
    assert again.cost() == record.cost()
    finish(again, running)
    assert list(again.finished()) == [done.key, running.key]


def test_a_trial_that_ended_does_not_begin_again(url: str) -> None:
    space = space_of(retries=0)
    record = StudyRecord.open(url, "s", space)
    trial, other, *_ = trials_of(space)
    record.begin(trial)
    with pytest.raises(ValueError, match="running"):
        record.begin(trial)
    record.finish(trial, result(1.0), Cost())
    with pytest.raises(ValueError, match="done"):
        record.begin(trial)
    with pytest.raises(ValueError, match="done"):
        record.fail(trial, "late", Cost())
    record.begin(other)
    with pytest.raises(ValueError, match="score nan"):
        record.finish(other, result(float("nan")), Cost())


def test_more_retries_open_a_failed_trial_again(url: str) -> None:
    trial = trials_of(space_of())[0]
    record = StudyRecord.open(url, "s", space_of(retries=0))
    record.begin(trial)
    assert not record.fail(trial, "out of memory", Cost(7))
    again = StudyRecord.open(url, "s", space_of(retries=2))
    assert again.status(trial) == "pending"
    again.begin(trial)
    again.finish(trial, result(50.0), Cost(3))
    assert (again.entries[trial.key].failures, again.cost().epochs_trained) == (1, 10)
    assert StudyRecord.open(url, "s", space_of(retries=2)).status(trial) == "done"


def test_a_lost_process_is_no_failure_while_the_trial_gets_on(url: str) -> None:
    space = space_of(retries=0)
    trial = trials_of(space)[0]
    for epoch in range(1, 3 * MAX_PROCESSES_LOST):  # a machine that is gone after every epoch, and the driver with it
        record = StudyRecord.open(url, "s", space)
        record.begin(trial)
        assert record.lose(trial, epoch, Cost(1, epoch - 1, 0.5))
        assert record.status(trial) == "pending"
    entry = record.entries[trial.key]
    assert (entry.failures, entry.processes_lost, entry.furthest_epoch) == (0, 0, 3 * MAX_PROCESSES_LOST - 1)
    record.begin(trial)
    record.finish(trial, result(50.0), Cost(1, 0, 0.5))
    assert record.cost().epochs_trained == 3 * MAX_PROCESSES_LOST


def test_a_trial_that_always_loses_its_process_at_one_point_fails(url: str) -> None:
    space = space_of(retries=2)
    trial = trials_of(space)[0]
    record = StudyRecord.open(url, "s", space)
    for epoch in (3, *[7, 5, 7, 7, 0, 7][:MAX_PROCESSES_LOST]):  # the seventh is the furthest, and never passed
        record = StudyRecord.open(url, "s", space)
        record.begin(trial)
        assert record.lose(trial, epoch, Cost())
    record.begin(trial)
    assert not record.lose(trial, 7, Cost())
    for each in (record, StudyRecord.open(url, "s", space)):
        assert each.status(trial) == "failed"
        assert f"{MAX_PROCESSES_LOST} times in a row" in each.entries[trial.key].reason
    more = StudyRecord.open(url, "s", space_of(retries=3))  # a larger machine, say
    assert more.status(trial) == "pending"
    more.begin(trial)
    assert more.lose(trial, 7, Cost())


def test_the_objective_is_the_value(url: str) -> None:
    space = space_of(objective="val/task_il")
    record = StudyRecord.open(url, "s", space)
    trial = trials_of(space)[0]
    record.begin(trial)
    record.finish(trial, result(10.0), Cost())
    assert record.entries[trial.key].score == 11.0


def test_a_changed_space_is_refused_with_the_difference(url: str) -> None:
    StudyRecord.open(url, "s", space_of())
    changed = space_of(settings={"E_0": 20, "E_t": 12}, seeds=[0, 1])
    with pytest.raises(Co2lError) as error:
        StudyRecord.open(url, "s", changed)
    line = str(error.value)
    assert "\n" not in line
    assert "settings.E_t: 10 → 12" in line
    assert "seeds" not in line  # more of them would be welcome
    assert "use --study NEW, which reuses stored stages" in line
    assert "--fresh" in line
    StudyRecord.open(url, "other", changed)
    StudyRecord.open(url, "s", space_of(retries=7, resources={"cpus": 2}))  # changes no result
    StudyRecord.open(url, "s", changed, fresh=True)
    with pytest.raises(Co2lError, match="another space"):
        StudyRecord.open(url, "s", space_of())


def test_a_space_that_grew_continues(url: str) -> None:
    axes = {"eta": [0.01, 0.05], "kappa": [0.1], "buffer_size": [50]}
    space = small_space(axes)
    first = StudyRecord.open(url, "s", space)
    for trial, score in zip(space.trials(), (41.0, 42.0), strict=True):
        finish(first, trial, score)
    found = {key: (entry.values, entry.score) for key, entry in first.entries.items()}
    larger = small_space({**axes, "eta": [0.01, 0.02, 0.05], "kappa": [0.2, 0.1]}, seeds=[0, 1])
    record = StudyRecord.open(url, "s", larger)
    assert {key: (entry.values, entry.score) for key, entry in record.finished().items()} == found
    left = [trial for trial in larger.trials() if record.status(trial) == "pending"]
    assert len(left) == 12 - 2
    for trial in left:
        finish(record, trial, 43.0)
    everything = {trial.key: dict(trial.values) for trial in larger.trials()}
    by_optuna = {
        trial.user_attrs["trial"]: trial.params for trial in optuna.load_study(study_name="s", storage=url).trials
    }
    assert by_optuna == everything  # values from before too
    stored = StudyReader(url).study("s")
    assert (stored.space.axes["eta"], stored.space.seeds, stored.left) == ((0.01, 0.02, 0.05), (0, 1), 0)
    assert (first.identity, record.identity) == (space.digest, space.digest)
    assert StudyRecord.open(url, "s", larger).identity == space.digest
    for smaller in (space, small_space({**axes, "eta": [0.01, 0.02, 0.06]})):
        with pytest.raises(Co2lError, match=r"axes.eta: \[0.01, 0.02, 0.05\] → "):
            StudyRecord.open(url, "s", smaller)


def test_a_range_may_grow_and_not_shrink(url: str) -> None:
    def ranged(low: float, high: float) -> Space:
        return small_space({"eta": {"low": low, "high": high}}, algorithm="random", samples=4)

    StudyRecord.open(url, "s", ranged(0.1, 0.2)).begin(ranged(0.1, 0.2).trial({"eta": 0.15}, 0))
    record = StudyRecord.open(url, "s", ranged(0.05, 0.2))
    record.begin(ranged(0.05, 0.2).trial({"eta": 0.06}, 0))
    assert len(StudyRecord.open(url, "s", ranged(0.05, 0.2)).entries) == 2
    with pytest.raises(Co2lError, match=r"axes.eta.low: 0.05 → 0.1"):
        StudyRecord.open(url, "s", ranged(0.1, 0.2))


def test_fresh_forgets_one_study_only(url: str) -> None:
    space = space_of()
    for name in ("s", "other"):
        record = StudyRecord.open(url, name, space)
        finish(record, trials_of(space)[0])
    assert not StudyRecord.open(url, "s", space, fresh=True).entries
    assert len(StudyRecord.open(url, "other", space).finished()) == 1


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("not a url", "not the URL of a database"),
        ("sqlite:////nowhere/at/all/study.db", "the storage cannot be used .No such file"),
        ("postgresql+nosuchdriver://u:secret@localhost:1/db", "the storage cannot be used"),
    ],
)
def test_a_storage_that_cannot_be_used(storage: str, said: str) -> None:
    with pytest.raises(Co2lError, match=said) as error:
        StudyRecord.open(storage, "s", space_of())
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_a_locked_database_is_waited_for_and_then_named(tmp_path: Path, url: str) -> None:
    record = StudyRecord.open(url, "s", space_of(), wait=0.2)
    lock = sqlite3.connect(tmp_path / "study.db")
    lock.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    try:
        with pytest.raises(Co2lError, match="database is locked"):
            record.begin(trials_of(space_of())[0])
        with pytest.raises(Co2lError, match="database is locked"):
            StudyRecord.open(url, "new", space_of(), wait=0.2)
    finally:
        lock.close()
    assert time.monotonic() - started < 60
    record.begin(trials_of(space_of())[0])  # and it goes on once the lock is gone


def test_a_database_that_is_not_ours(tmp_path: Path, url: str) -> None:
    study = optuna.create_study(study_name="s", storage=url)
    study.tell(study.ask(), 1.0)
    with pytest.raises(Co2lError, match="not a search of ours"):
        StudyRecord.open(url, "s", space_of())
    (tmp_path / "text.db").write_text("no database, but a text that is long enough to be looked at\n" * 99)
    with pytest.raises(Co2lError, match="not a database"):
        StudyRecord.open(f"sqlite:///{tmp_path}/text.db", "s", space_of())


def test_optuna_s_tools_see_a_named_objective_and_the_scores_after_each_task(url: str) -> None:
    space = space_of()
    record = StudyRecord.open(url, "s", space)
    trial = trials_of(space)[0]
    record.begin(trial)
    for finished_tasks, score in ((1, 90.0), (2, 80.5)):
        record.rung(trial, finished_tasks, score)
    record.finish(trial, result(80.0), Cost())
    study = optuna.load_study(study_name="s", storage=url)
    assert study.metric_names == ["val/score"]
    assert study.trials[0].intermediate_values == {1: 90.0, 2: 80.5}
    StudyRecord.open(url, "s.test", of_space(space, 1))
    assert optuna.load_study(study_name="s.test", storage=url).metric_names == ["test/score"]


def test_entries_say_what_they_cost() -> None:
    entry = Entry("k", {}, 0, "done", failures=2, reason="r", cost=Cost(3, 4, 5.0))
    again = Entry("k", {}, 0, "running").continued(entry.so_far())
    assert (again.failures, again.reason) == (2, "r")
    assert again.cost + Cost(1, 1, 3600.0) == Cost(4, 5, 3605.0)


def test_a_paused_trial_is_known_as_paused_and_goes_on(tmp_path: Path) -> None:
    url, space = f"sqlite:///{tmp_path}/study.db", space_of()
    trial = next(space.trials())
    record = StudyRecord.open(url, "s", space)
    record.begin(trial)
    record.rung(trial, 1, 70.0)
    record.pause(trial, Cost(epochs_trained=20))
    again = StudyRecord.open(url, "s", space)
    assert (again.status(trial), again.entries[trial.key].rungs) == ("paused", {1: 70.0})
    again.begin(trial)
    killed = StudyRecord.open(url, "s", space)  # while it ran
    assert killed.status(trial) == "pending"
    finish(killed, trial, 60.0, Cost(epochs_trained=40))
    assert StudyRecord.open(url, "s", space).entries[trial.key].cost.epochs_trained == 60
