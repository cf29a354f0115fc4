"""How far a run is and how fast, from its events alone."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import few_digits, short, start

from co2l.cli.display import Display
from co2l.cli.run_progress import RunProgress
from co2l.learning.events import EpochDone, Evaluating, Result, RunDone, StepDone, TaskDone
from co2l.learning.progress import Meter, Position

EPOCHS = [3, 2, 2]


class Unread:
    """A loss on the device: reading it would wait."""

    def __float__(self) -> float:
        raise AssertionError("a loss was read")


@pytest.fixture
def now() -> list[float]:
    return [50.0]


def step(task: int, epoch: int, i: int, steps: int = 4) -> StepDone:
    losses: Any = {"supcon": Unread()}
    return StepDone(task, epoch, EPOCHS[task], i, steps, 100, losses)


def test_speed_and_time_left_come_from_what_was_trained_here(now: list[float]) -> None:
    meter = Meter(EPOCHS, clock=lambda: now[0])
    assert meter.position() is None
    meter.see(TaskDone(0, None, 0))  # from the store: it took no time
    assert meter.position() == Position(0, 3, 3, 3, 1, 1, part_done=3 / 7)
    now[0] += 2
    meter.see(step(1, 1, 1))
    meter.see(step(1, 1, 2))
    # half an epoch in two seconds, and three and a half are left
    assert meter.position() == Position(1, 3, 1, 2, 2, 4, 3.5 / 7, views_per_second=100.0, seconds_left=14.0)
    now[0] += 1
    meter.see(step(1, 1, 3))
    found = meter.position()
    assert found is not None
    assert found.views_per_second == 100.0, "since it was last asked"
    assert found.seconds_left == pytest.approx(3.25 * 3 / 0.75)


def test_epochs_and_evaluations_have_their_position(now: list[float]) -> None:
    meter = Meter(EPOCHS, clock=lambda: now[0])
    meter.see(EpochDone(0, 2, 3, {}, 0.1))
    assert meter.position() == Position(0, 3, 2, 3, 1, 1, part_done=2 / 7)
    meter.see(Evaluating(2, "paper"))
    assert meter.position() == Position(2, 3, 2, 2, 1, 1, part_done=1.0, probe="paper")
    meter.see(RunDone(Result({}, {}, "ab", "paper")))
    assert meter.position() is None


def test_a_position_crosses_as_plain_data() -> None:
    position = Position(1, 3, 1, 2, 2, 4, 0.5, 100.0, 14.0, "fast")
    assert Position.from_dict(position.as_dict()) == position


def test_all_of_a_run_is_done_when_its_last_task_is(tmp_path: Any) -> None:
    """Even where a method trains only in the last stage."""
    for method in ("co2l", "joint"):
        config, tasks = short(method), few_digits()
        meter, parts = Meter(config.settings.epochs_per_task(len(tasks))), []
        for event in start(config, tmp_path / method, tasks):
            meter.see(event)
            position = meter.position()
            parts += [position.part_done] if position else []
        assert parts == sorted(parts)
        assert parts[-1] == pytest.approx(1.0)


def test_a_run_warns_once_of_features_that_died(capsys: pytest.CaptureFixture[str]) -> None:
    config, tasks = short("er"), few_digits()
    progress = RunProgress(Display(quiet=False), config, tasks)
    for t, dead in enumerate([None, 12.0, 80.0, 90.0]):
        progress.show(TaskDone(t, None, 1, dead))
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert lines == [
        "warning: 80% of the encoder's features are dead after task 3: the representation collapsed;"
        " lower eta, or set unit_sphere=true"
    ]
