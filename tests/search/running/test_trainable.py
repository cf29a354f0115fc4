"""What a worker reports of a run, event by event."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from co2l.learning.config import RunConfig
from co2l.learning.events import EpochDone, Evaluating, Event, Result, RunDone, StateSaved, StepDone, TaskDone
from co2l.learning.methods import configure
from co2l.learning.progress import Position
from co2l.search.running import trainable
from co2l.search.running.reports import Report
from co2l.search.running.trainable import Assignment, Reporter, TrialTrainable

SHORTEST = {"E_0": 1, "E_t": 1, "matrix_probe": "none", "probe_epochs": 1}
ROW = {"class_il": [50.0, 70.0], "task_il": [90.0, 70.0]}


@pytest.fixture
def reporter() -> Reporter:
    """Of a run with 3 epochs of task 1 and 2 of each of the four later ones."""
    return Reporter(configure("seq_digits", "co2l", {"E_0": 3, "E_t": 2}))


def test_an_epoch_counts_over_all_tasks_and_brings_its_losses(reporter: Reporter) -> None:
    report = reporter.report(EpochDone(task=2, epoch=1, epochs=2, losses={"supcon": 0.5, "ird": 0.25}, lr=0.01))
    assert report == Report("epoch", 2, 5, 3 + 2 + 1, {"loss/supcon": 0.5, "loss/ird": 0.25, "lr": 0.01}, 1, 0)


def test_what_was_not_trained_here_was_reused(reporter: Reporter) -> None:
    first = reporter.report(TaskDone(0, ROW, 0))  # all from the store
    assert first is not None
    assert (first.epoch, first.epochs_trained, first.epochs_reused) == (3, 0, 3)
    for epoch in (1, 2):
        reporter.report(EpochDone(task=1, epoch=epoch, epochs=2, losses={}, lr=0.01))
    second = reporter.report(TaskDone(1, ROW, 2))
    assert second is not None
    assert (second.epoch, second.epochs_trained, second.epochs_reused) == (5, 2, 3)


def test_a_task_brings_its_accuracies_and_their_mean(reporter: Reporter) -> None:
    report = reporter.report(TaskDone(1, ROW, 2))
    assert report is not None
    assert report.metrics == {"val_fast/class_il": 60.0, "val_fast/task_il": 80.0, "val_fast/score": 70.0}
    without = reporter.report(TaskDone(1, None, 2))
    assert without is not None
    assert without.metrics == {}


def test_forgetting_is_a_metric_of_its_own_by_the_same_probe(reporter: Reporter) -> None:
    first = reporter.report(TaskDone(0, {"class_il": [90.0], "task_il": [100.0]}, 3))
    assert first is not None
    assert not [name for name in first.metrics if "forgetting" in name]
    second = reporter.report(TaskDone(1, {"class_il": [60.0, 80.0], "task_il": [95.0, 99.0]}, 2))
    third = reporter.report(TaskDone(2, {"class_il": [70.0, 50.0, 90.0], "task_il": [95.0, 98.0, 99.0]}, 2))
    assert second is not None
    assert third is not None
    assert second.metrics["val_fast/forgetting_class_il"] == 30.0
    assert third.metrics["val_fast/forgetting_class_il"] == ((90 - 70) + (80 - 50)) / 2
    assert third.metrics["val_fast/forgetting_task_il"] == ((100 - 95) + (99 - 98)) / 2


def test_without_a_matrix_probe_only_the_final_one_is_reported() -> None:
    reporter = Reporter(configure("seq_digits", "co2l", {"matrix_probe": "none"}))
    report = reporter.report(TaskDone(0, None, 2))
    assert report is not None
    assert report.metrics == {}


def test_a_curve_never_mixes_probes(reporter: Reporter) -> None:
    last = reporter.report(TaskDone(4, ROW, 2))
    assert last is not None
    assert last.metrics == {"val_fast/class_il": 60.0, "val_fast/task_il": 80.0, "val_fast/score": 70.0}
    final = {"class_il": [50.0] * 5, "task_il": [90.0] * 5}
    result = Result(final=final, matrix={}, weights="ab", probe="paper")
    done = reporter.report(RunDone(result))
    assert done is not None
    assert (done.kind, done.task, done.epoch) == ("done", 4, 11)
    assert done.metrics == {"val/class_il": 50.0, "val/task_il": 90.0, "val/score": 70.0}
    assert done.result == result.as_dict()


@pytest.mark.parametrize(("gpus", "fractions"), [(0.25, [0.25]), (1.0, [1.0]), (2.0, [1.0]), (0.0, [])])
def test_a_share_of_a_card_is_a_share_of_its_memory(
    gpus: float, fractions: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a mock of CUDA: there is none here."""
    limits: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", limits.append)
    config = configure("seq_digits", "co2l", SHORTEST).as_dict()
    assignment = Assignment(
        trial="t", split=config.pop("split"), config=config, store=str(tmp_path), data=str(tmp_path), device="cpu",
        retained=(), threads=1, save_every=60.0, gpus=gpus,
    )  # fmt: skip
    TrialTrainable(assignment.as_dict()).step()
    assert limits == fractions


def test_a_saved_state_is_reported_with_the_epochs_trained_so_far(reporter: Reporter) -> None:
    for epoch in (1, 2):
        reporter.report(EpochDone(task=0, epoch=epoch, epochs=3, losses={}, lr=0.01))
    assert reporter.report(StateSaved(0, 2)) == Report("saved", 0, 5, 2, {}, 2, 0)


def test_steps_and_evaluations_are_not_reported(reporter: Reporter) -> None:
    assert reporter.report(Evaluating(0, "fast")) is None
    assert reporter.report(StepDone(0, 1, 3, 1, 9, {}, 128)) is None


def test_a_worker_says_where_it_is_without_waiting_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainable, "TOGETHER_SECONDS", -1.0)  # each event travels alone

    class Unread:
        def __float__(self) -> float:
            raise AssertionError("a loss was read")

    class Scripted(TrialTrainable):
        def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
            del assignment, config
            losses: Any = {"supcon": Unread()}
            yield StepDone(0, 1, 3, 1, 2, 32, losses)
            yield EpochDone(0, 3, 3, {"supcon": 0.5}, 0.1)
            yield Evaluating(0, "fast")

    described = configure("seq_digits", "co2l", {"E_0": 3, "E_t": 2}).as_dict()
    split = described.pop("split")
    where = {"store": "", "data": "", "device": "cpu", "retained": (), "threads": 1, "save_every": 60.0}
    worker = Scripted({"trial": "a", "config": described, "split": split, **where})
    results = [worker.step() for _ in range(3)]
    positions = [Position.from_dict(each["position"]) for each in results]
    assert [(each.epoch, each.step, each.steps, each.probe) for each in positions] == [
        (1, 1, 2, ""),
        (3, 1, 1, ""),
        (3, 1, 1, "fast"),
    ]
    assert [each.part_done for each in positions] == pytest.approx([0.5 / 11, 3 / 11, 3 / 11])
    assert [len(each["reports"]) for each in results] == [0, 1, 0]
    assert positions[0].views_per_second > 0
    assert json.loads(json.dumps(results)) == results, "plain data, for any Ray"


def test_reports_cross_as_plain_data() -> None:
    report = Report("done", 4, 5, 60, {"val/score": 70.0}, 40, 20, {"score": 70.0})
    assert Report.from_dict({**report.to_dict(), "training_iteration": 3}) == report


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config": {"benchmark": "seq_of_another_version", "method": "co2l", "seed": 0, "settings": {}}}, "benchmark"),
        ({"split": {"kind": "search", "share": 0.1}}, "share"),
        ({"a_field_of_another_version": 1}, "a_field_of_another_version"),
    ],
)
def test_a_worker_that_cannot_configure_a_trial_says_so_in_its_own_words(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    config = configure("seq_digits", "co2l", {}).as_dict()
    split = config.pop("split")
    given = Assignment("key", config, split, str(tmp_path), str(tmp_path), "cpu", (), 1, 60.0).as_dict() | changes
    told = TrialTrainable(given).step()
    assert words in told["failed"]
    assert (told["done"], told["fault"]) == (True, "unfit")
