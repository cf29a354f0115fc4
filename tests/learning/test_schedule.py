"""The learning rate against values worked out by hand from the released code's formulas."""

from __future__ import annotations

import math

import pytest

from co2l.learning.schedule import Schedule


def test_cosine_by_epoch_ends_at_a_thousandth() -> None:
    schedule = Schedule(eta=0.5, epochs=100)
    assert schedule.lr(50, 0, 10) == pytest.approx(0.0005 + 0.4995 / 2)
    assert schedule.lr(100, 9, 10) == pytest.approx(0.0005)
    assert schedule.lr(25, 0, 10) == schedule.lr(25, 9, 10) == pytest.approx(0.0005 + 0.4995 * (1 + math.sqrt(0.5)) / 2)


def test_cosine_by_step_starts_at_eta() -> None:
    schedule = Schedule(eta=0.5, epochs=1, resolution="step")
    assert schedule.lr(1, 0, 4) == pytest.approx(0.5)
    assert schedule.lr(1, 2, 4) == pytest.approx(0.0005 + 0.4995 / 2)


def test_warm_up_is_linear_from_its_start_to_the_cosine() -> None:
    schedule = Schedule(eta=0.5, epochs=100, warmup_epochs=10)
    target = 0.0005 + 0.4995 * (1 + math.cos(math.pi / 10)) / 2
    assert schedule.lr(1, 0, 20) == pytest.approx(0.01)
    assert schedule.lr(6, 0, 20) == pytest.approx((0.01 + target) / 2)
    assert schedule.lr(10, 19, 20) == pytest.approx(0.01 + (target - 0.01) * (9 + 19 / 20) / 10)
    assert schedule.lr(11, 0, 20) == pytest.approx(0.0005 + 0.4995 * (1 + math.cos(math.pi * 0.11)) / 2)


def test_a_short_task_is_not_all_warm_up() -> None:
    assert max(Schedule(eta=0.5, epochs=4, warmup_epochs=10).lr(e, 0, 1) for e in range(1, 5)) > 0.05
