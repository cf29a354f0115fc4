"""What every benchmark promises: well-formed tasks, the same each time, and a search that never opens test data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import torch

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.cache import Arrays
from co2l.data.examples import Examples
from co2l.data.root import data_root
from co2l.data.sources import load
from co2l.data.sources.reading import Part
from co2l.data.streams import Split, TaskStream, open_stream
from co2l.testing.runs import instead

SEARCH, EVALUATION = Split("search"), Split("evaluation")
SEED = 3


def _stream(name: str, split: Split) -> TaskStream:
    BENCHMARKS.find(name)
    return open_stream(name, split=split, seed=SEED, data=data_root())


def _some(stream: TaskStream) -> list[int]:
    """Tasks to look at: all, or where each is a copy of all images the first and the last."""
    return list(range(len(stream))) if stream.benchmark.scenario == "class" else [0, len(stream) - 1]


def has_well_formed_tasks(name: str, folder: Path) -> None:
    del folder
    for split in (SEARCH, EVALUATION):
        stream = _stream(name, split)
        of = stream.benchmark
        seen = [label for t in range(len(stream)) for label in stream.classes(t)]
        times = 1 if of.scenario == "class" else len(stream)
        assert sorted(seen) == sorted(list(range(of.num_classes)) * times), "its tasks are not all of its classes"
        for t in _some(stream):
            assert len(stream.classes(t)) == of.classes_per_task
            for examples in (stream.train(t), stream.held_out(t)):
                _check(examples, t, of.image_shape, set(stream.classes(t)))


def _check(examples: Examples, t: int, shape: tuple[int, int, int], classes: set[int]) -> None:
    n = len(examples)
    assert n > 0, f"task {t + 1} has no examples"
    assert examples.images.dtype == torch.uint8, f"images are {examples.images.dtype}, not bytes"
    assert examples.pool.is_contiguous()
    assert examples.images.shape == (n, *shape), f"images are {tuple(examples.images.shape[1:])}, not {shape}"
    assert examples.labels.dtype == examples.tasks.dtype == torch.int64
    assert set(examples.labels.tolist()) <= classes, f"task {t + 1} has labels of other tasks"
    assert examples.tasks.tolist() == [t] * n


def trains_and_validates_on_different_examples(name: str, folder: Path) -> None:
    """Together they are all training examples, and nothing else."""
    del folder
    stream, whole = _stream(name, SEARCH), _stream(name, EVALUATION)
    trained = held_out = total = 0
    for t in _some(stream):
        train, validation, everything = stream.train(t), stream.held_out(t), whole.train(t)
        if train.rows is not None and validation.rows is not None:  # rows of the same array
            assert set(train.rows.tolist()).isdisjoint(validation.rows.tolist()), "an example is in both"
        assert _contents(train) + _contents(validation) == _contents(everything), "they are not all training examples"
        trained, held_out, total = trained + len(train), held_out + len(validation), total + len(everything)
    if stream.benchmark.scenario == "class":
        assert (held_out, trained) == (round(total / 10), total - round(total / 10))
    else:
        assert held_out == len(_some(stream)) * round(total / len(_some(stream)) / 10)


def _contents(examples: Examples) -> Counter[tuple[bytes, int]]:
    pairs = zip(examples.images.numpy(), examples.labels.tolist(), strict=True)
    return Counter((image.tobytes(), label) for image, label in pairs)


def is_the_same_whenever_it_is_opened(name: str, folder: Path) -> None:
    del folder
    for split in (SEARCH, EVALUATION):
        one, other = _stream(name, split), _stream(name, split)
        other.train(len(other) - 1)  # opening tasks in another order changes nothing
        assert one.fingerprint == other.fingerprint, "its data differ from one time to the next"
        for t in {0, len(one) - 1}:
            for a, b in ((one.train(t), other.train(t)), (one.held_out(t), other.held_out(t))):
                assert torch.equal(a.labels, b.labels), "its labels differ from one time to the next"
                assert torch.equal(a.images, b.images), "its images differ from one time to the next"


def never_opens_test_data_in_a_search(name: str, folder: Path) -> None:
    del folder
    of, asked = BENCHMARKS.find(name), list[Part]()

    def noted(root: Path, part: Part) -> Arrays:
        asked.append(part)
        return load(of.source, part, root)

    with instead(BENCHMARKS, name, replace(of, source=noted)):
        _stream(name, SEARCH).held_out(0)
        assert asked == ["train"], "a search opened the test set"
        _stream(name, EVALUATION)
        assert asked == ["train", "train", "test"], "an evaluation did not open the test set"


def counts_its_training_examples(name: str, folder: Path) -> None:
    """Estimates of memory and time without the data rely on `examples`."""
    del folder
    of = BENCHMARKS.find(name)
    n = len(load(of.source, "train", data_root()).labels)
    assert of.examples in (0, n), f"examples={of.examples}, but there are {n}"


def standardises_every_channel(name: str, folder: Path) -> None:
    del folder
    of = BENCHMARKS.find(name)
    assert len(of.mean) == len(of.std) == of.image_shape[0], "mean and std need a number for every channel"
    assert min(of.std) > 0, "std must be above 0"


PROMISES = (
    has_well_formed_tasks,
    trains_and_validates_on_different_examples,
    is_the_same_whenever_it_is_opened,
    never_opens_test_data_in_a_search,
    counts_its_training_examples,
    standardises_every_channel,
)
