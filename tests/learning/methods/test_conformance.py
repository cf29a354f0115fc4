"""What every method promises, with co2l.testing: a new method is covered from the day it is named in METHODS."""

from __future__ import annotations

from typing import Any

import pytest

from co2l.errors import Co2lError
from co2l.learning.methods import METHODS, configure, hal
from co2l.testing.fixtures import Keeps


@pytest.fixture(autouse=True)
def _few_anchor_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hal, "ANCHOR_STEPS", 10)  # nothing here depends on how far HAL's anchors are learned


@pytest.mark.parametrize("name", METHODS)
def test_it_keeps_every_promise(name: str, method_promise: Keeps) -> None:
    method_promise(name)


def test_only_the_upper_bound_sees_all_tasks_at_once() -> None:
    assert [name for name, kind in METHODS.items() if kind.jointly] == ["joint"]


def test_icarl_serves_new_classes_only() -> None:
    with pytest.raises(Co2lError, match="'icarl' cannot serve domain-incremental 'r_mnist'; it serves class-incr"):
        configure("r_mnist", "icarl")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("finetune", {"buffer_size": 200}, "unknown setting 'buffer_size'"),
        ("joint", {"matrix_probe": "none"}, "unknown setting 'matrix_probe'"),
        ("er", {"alpha": 0.5}, "unknown setting 'alpha'"),
        ("gem", {"minibatch_size": 5}, "unknown setting 'minibatch_size'"),
        ("gem", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks of seq_digits; use at least 5"),
        ("agem", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks"),
        ("fdr", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks"),
        ("hal", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks"),
        ("icarl", {"buffer_size": 9}, "buffer_size=9 is smaller than the 10 classes of seq_digits"),
        ("er", {"buffer_size": 0}, "buffer_size: input should be greater than or equal to 1, got 0"),
        ("hal", {"beta": 1.5}, "beta: input should be less than or equal to 1"),
    ],
)
def test_bad_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Co2lError) as caught:
        configure("seq_digits", name, settings, where="--set")
    assert str(caught.value).startswith(f"--set: {message}")
    assert "\n" not in str(caught.value)
