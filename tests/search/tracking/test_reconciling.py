"""Every trial of the record has exactly one run with its result, whatever has become of MLflow's database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow_server import file_uri
from spaces import space_of
from tracked_runs import RESULT, content, done, epoch, points, runs

from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space
from co2l.search.tracking import Tracker

SPACE = space_of({"eta": [0.1, 0.5], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}, settings={"E_0": 20, "E_t": 10})
TRIALS = list(SPACE.trials())


@pytest.fixture
def record() -> StudyRecord:
    """One trial for each way to end; the last one is pending, and never began."""
    record = StudyRecord.open(None, "s", SPACE.replace(retries=0))
    first, second, third, fourth, *_ = TRIALS
    for trial in (first, second, third, fourth):
        record.begin(trial)
    record.finish(first, RESULT, Cost(60, 20, 30.0))
    record.fail(second, "the supcon loss became nan", Cost(3, 0, 1.0))
    record.rung(third, 1, 33.0)
    record.prune(third, Cost(20, 0, 10.0))
    record.interrupt(fourth, Cost(2, 0, 1.0))
    return record


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Tracker]:
    def of(uri: str, space: Space = SPACE) -> Tracker:
        return Tracker.open(uri, "s", space=space, spool=tmp_path / "spool")

    return of


def told(tracker: Tracker, record: StudyRecord) -> None:
    """As a search with nothing left to do."""
    tracker.reconcile(record.entries)
    tracker.close_study(selected=[], table=[], entries=[], shares={}, cost=record.cost())
    assert tracker.close(60) == 0


def statuses(uri: str) -> dict[str, tuple[str, str]]:
    (_,), children = runs(uri, "s")
    found = {run.data.tags["co2l.trial"]: (run.info.status, run.data.tags["co2l.status"]) for run in children}
    assert len(found) == len(children), "a trial has two runs"
    return found


ENDS = {
    trial.key: end
    for trial, end in zip(TRIALS, [("FINISHED", "done"), ("FAILED", "failed"), ("KILLED", "pruned")], strict=False)
}


def test_a_database_that_was_deleted_gets_every_result_again(
    opened: Callable[..., Tracker], record: StudyRecord, tmp_path: Path
) -> None:
    uri = file_uri(tmp_path)
    for _ in range(2):
        told(opened(uri), record)
    assert statuses(uri) == ENDS
    (parent,), children = runs(uri, "s")
    assert parent.info.status == "FINISHED"
    by_trial = {run.data.tags["co2l.trial"]: run for run in children}
    run = by_trial[TRIALS[0].key]
    assert run.info.run_name == "η=0.1 κ=0.1 M=50"
    assert run.data.params["eta"] == "0.1"
    assert run.info.end_time - run.info.start_time == pytest.approx(30_000, abs=5_000)
    # RESULT has two of the five tasks: after task 1 (20 epochs) 99, after task 2 (10 more) 60 and 80
    assert points(uri, run, "val_fast/class_il") == [(20, 99.0), (30, 70.0)]
    assert points(uri, run, "val_fast/score") == [(20, 99.0), (30, 80.0)]
    assert points(uri, run, "val/class_il") == [(60, 70.0)]
    assert points(uri, run, "val/score") == [(60, 80.0)]
    assert (run.data.tags["co2l.epochs_trained"], run.data.tags["co2l.epochs_reused"]) == ("60", "20")
    assert json.loads(content(uri, run, "accuracy_matrix.json", tmp_path)) == RESULT
    assert by_trial[TRIALS[1].key].data.tags["co2l.reason"] == "the supcon loss became nan"
    assert points(uri, by_trial[TRIALS[2].key], "val_fast/score") == [(20, 33.0)]


def test_what_is_there_is_not_sent_again(opened: Callable[..., Tracker], record: StudyRecord, tmp_path: Path) -> None:
    uri = file_uri(tmp_path)
    tracker = opened(uri)
    tracker.begin(TRIALS[0])
    tracker.report(TRIALS[0].key, epoch(1))
    tracker.end(TRIALS[0].key, "done", done(60))
    tracker.close(60)
    before = runs(uri, "s")[1][0]
    told(opened(uri), record)
    after = next(run for run in runs(uri, "s")[1] if run.info.run_id == before.info.run_id)
    assert after.info.end_time == before.info.end_time
    assert after.data.tags == before.data.tags
    assert points(uri, after, "loss/supcon") == [(1, 0.125)]
    assert statuses(uri) == ENDS


def test_a_result_that_was_lost_on_its_way_is_sent_again(
    opened: Callable[..., Tracker], record: StudyRecord, tmp_path: Path
) -> None:
    """Its run said FINISHED, without a score: the line with its end was damaged."""
    uri = file_uri(tmp_path)
    tracker = opened(uri)
    tracker.begin(TRIALS[0])
    tracker.report(TRIALS[0].key, epoch(1))
    tracker.begin(TRIALS[4])  # which the record does not know
    tracker.close(60)
    told(opened(uri), record)
    assert statuses(uri) == {**ENDS, TRIALS[4].key: ("KILLED", "pending")}
    run = next(run for run in runs(uri, "s")[1] if run.info.status == "FINISHED")
    assert run.data.metrics["val/score"] == RESULT["score"]
    assert points(uri, run, "loss/supcon") == [(1, 0.125)]


def test_of_two_runs_of_a_trial_the_one_with_the_result_stays(
    opened: Callable[..., Tracker], record: StudyRecord, tmp_path: Path
) -> None:
    """As two drivers leave them, of which one took the study from the other."""
    uri = file_uri(tmp_path)
    told(opened(uri), record)
    (parent,), children = runs(uri, "s")
    client = MlflowClient(uri)
    for run in children:
        tags = {name: run.data.tags[name] for name in ("co2l.kind", "co2l.trial", "co2l.study", "mlflow.parentRunId")}
        twice = client.create_run(parent.info.experiment_id, tags={**tags, "co2l.status": "pending"})
        client.set_terminated(twice.info.run_id, "KILLED")
    assert len(runs(uri, "s")[1]) == 6
    told(opened(uri), record)
    assert statuses(uri) == ENDS
    kept = {run.info.run_id for run in runs(uri, "s")[1]}
    assert next(run.info.run_id for run in children if run.info.status == "FINISHED") in kept


def test_what_an_earlier_driver_left_to_send_comes_before(
    opened: Callable[..., Tracker], record: StudyRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = file_uri(tmp_path)
    tracker = opened(uri)
    tracker._outbox._given_up.set()  # from here on nothing arrives, as if the server were away
    tracker.reconcile({})
    tracker.begin(TRIALS[0])
    tracker.report(TRIALS[0].key, epoch(1))
    tracker.end(TRIALS[0].key, "done", done(60))
    assert tracker.close(0.1) > 0
    told(opened(uri), record)
    assert statuses(uri) == ENDS
    run = next(run for run in runs(uri, "s")[1] if run.info.status == "FINISHED")
    assert points(uri, run, "loss/supcon") == [(1, 0.125)]
    assert points(uri, run, "val/score") == [(60, 80.0)]  # its own, as it was reported
