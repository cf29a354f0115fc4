"""A stream in another order brings the same images, numbered as they come, and knows the dataset's classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from co2l.data.benchmarks import benchmark
from co2l.data.class_order import classes_in_order
from co2l.data.randomness import generator_for
from co2l.data.sources import load
from co2l.data.streams import Split, open_stream

REVERSED = "9,8,7,6,5,4,3,2,1,0"


def test_drawn_orders() -> None:
    drawn = [classes_in_order(number, 100, seed=5) for number in range(4)]
    assert all(sorted(order) == list(range(100)) for order in drawn)
    assert len(set(drawn)) == 4
    assert drawn == [classes_in_order(number, 100, seed=6) for number in range(4)]  # whatever the run's seed
    assert [classes_in_order("seed", 100, seed=seed) for seed in range(4)] == drawn
    expected = torch.randperm(10, generator=generator_for(1, "class order")).tolist()
    assert list(classes_in_order(1, 10, seed=0)) == expected


def test_the_datasets_own_order_is_none() -> None:
    assert classes_in_order("fixed", 10, 0) == classes_in_order("0,1,2,3,4,5,6,7,8,9", 10, 0) == ()


@pytest.mark.parametrize("tasks", [2, 5, 10])
@pytest.mark.parametrize("order", ["fixed", 0, REVERSED])
def test_task_t_holds_the_next_classes_of_the_order(tasks: int, order: int | str) -> None:
    arranged = benchmark("seq_digits").arranged(tasks, order, seed=0)
    digits = load("digits", "test", Path())
    classes = classes_in_order(order, 10, 0) or tuple(range(10))
    stream = open_stream(arranged, split=Split("evaluation"), seed=0, data=Path())
    assert (len(stream), arranged.classes_per_task, arranged.num_classes) == (tasks, 10 // tasks, 10)
    each = 10 // tasks
    for t in range(tasks):
        examples = stream.held_out(t)
        assert stream.classes(t) == tuple(range(t * each, (t + 1) * each))
        for i in range(t * each, (t + 1) * each):
            images = examples.images[examples.labels == i]
            assert torch.equal(images, digits.images[digits.labels == classes[i]])
        originals = arranged.original(examples.labels)
        assert set(originals.tolist()) == set(classes[t * each : (t + 1) * each])
    assert stream.fingerprint == open_stream("seq_digits", split=Split("search"), seed=0, data=Path()).fingerprint


def test_the_same_examples_are_held_out_in_every_order() -> None:
    def held_out(order: int | str) -> Counter[tuple[bytes, int]]:
        arranged = benchmark("seq_digits").arranged(5, order, seed=0)
        stream = open_stream(arranged, split=Split("search"), seed=0, data=Path())
        return Counter(
            (image.numpy().tobytes(), int(label))
            for examples in map(stream.held_out, range(5))
            for image, label in zip(examples.images, arranged.original(examples.labels), strict=True)
        )

    assert held_out("fixed") == held_out(3) == held_out(REVERSED)


def test_more_domains() -> None:
    arranged = benchmark("r_digits").arranged(7, "fixed", seed=0)
    assert (arranged.tasks, arranged.classes_per_task) == (7, 10)
    assert len(open_stream(arranged, split=Split("search"), seed=0, data=Path()).angles) == 7
