"""Doubts about a configuration are said, and only where there is reason for them."""

from __future__ import annotations

import pytest
from small_runs import few_digits

from co2l.data.streams import Split
from co2l.learning.advice import TaskSize, advice, task_sizes
from co2l.learning.methods import configure
from co2l.learning.schedule import Schedule

ENOUGH = [TaskSize(1000, 200)] * 5


def said(method: str = "co2l", sizes: list[TaskSize] = ENOUGH, **settings: object) -> list[str]:
    return advice(configure("seq_digits", method, settings), sizes)


@pytest.mark.parametrize("name", ["E_0", "E_t"])
def test_one_epoch_by_epoch_is_at_the_end_of_the_cosine(name: str) -> None:
    (line,) = said(**{name: 1})
    assert line.startswith(f"{name}=1 with schedule_by=epoch trains ")
    assert "eta/1000" in line
    assert Schedule(eta=0.5, epochs=1).lr(1, 0, 10) == pytest.approx(0.5 / 1000)
    assert said(**{name: 1}, schedule_by="step") == []
    assert said(**{name: 2}) == []


def test_a_constant_rate_is_no_doubt() -> None:
    assert said("er", epochs=1) == []


def test_a_batch_that_is_larger_than_a_task() -> None:
    sizes = [TaskSize(100, 1000), TaskSize(60, 1000), TaskSize(50, 1000)]
    assert said(sizes=sizes, batch_size=50) == []
    (later,) = said(sizes=sizes, batch_size=60)
    assert "batch_size=60 is larger than task 3 (50 examples): an epoch there is a single step" in later
    (first,) = said(sizes=sizes, batch_size=200)
    assert "batch_size=200 is larger than 3 of the 3 tasks (50 examples): the run will be refused" in first


def test_a_validation_set_whose_images_are_a_tenth_of_a_point() -> None:
    assert said(sizes=[TaskSize(1000, 500)] * 2) == []  # one of 1000
    (line,) = said(sizes=[TaskSize(1000, 72)] * 2)
    assert line.startswith("144 validation examples: one of them is 0.69 points of accuracy")
    tested = configure("seq_digits", "co2l", {}, split=Split("evaluation"))
    assert advice(tested, [TaskSize(1000, 72)] * 2) == []


@pytest.mark.parametrize("name", ["seq_digits", "r_digits"])
def test_sizes_are_those_of_the_examples(name: str) -> None:
    tasks = few_digits(name)
    expected = [(len(tasks.train(t)), len(tasks.held_out(t))) for t in range(len(tasks))]
    assert [(size.train, size.held_out) for size in task_sizes(tasks)] == expected
