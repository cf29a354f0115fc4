"""One conformance suite for all task streams, then what is particular to each."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.data.sources import load
from co2l.data.streams import Split, TaskStream, open_stream, rotate, validation_rows
from co2l.data.torchvision_import import torchvision
from co2l.errors import Co2lError
from co2l.testing import Check
from co2l.testing.benchmarks import PROMISES, counts_its_training_examples

SEARCH, EVALUATION = Split("search"), Split("evaluation")
functional = torchvision.transforms.functional
modes = torchvision.transforms.InterpolationMode


@pytest.fixture(params=BENCHMARKS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[SEARCH, EVALUATION], ids=lambda split: split.kind)
def split(request: pytest.FixtureRequest) -> Split:
    return request.param


def assert_same(one: Examples, other: Examples) -> None:
    assert torch.equal(one.labels, other.labels)
    assert torch.equal(one.tasks, other.tasks)
    assert torch.equal(one.images, other.images)


def assert_same_streams(one: TaskStream, other: TaskStream) -> None:
    assert one.fingerprint == other.fingerprint
    for t in {0, 1, len(one) - 1}:
        assert_same(one.train(t), other.train(t))
        assert_same(one.held_out(t), other.held_out(t))


def contents(parts: list[Examples]) -> Counter[tuple[bytes, int]]:
    found: Counter[tuple[bytes, int]] = Counter()
    for examples in parts:
        for image, label in zip(examples.images.numpy(), examples.labels.tolist(), strict=True):
            found[image.tobytes(), label] += 1
    return found


# Conformance


@pytest.mark.parametrize("promise", [each for each in PROMISES if each is not counts_its_training_examples])
def test_it_keeps_every_promise(name: str, promise: Check, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the number of examples, which are fewer in tests."""
    monkeypatch.setenv("CO2L_DATA", str(root))
    promise(name, root)


def test_validation_is_drawn_by_the_split_seed_alone(name: str, small_data: Path) -> None:
    def drawn(split_seed: int, seed: int) -> list[Tensor]:
        stream = open_stream(name, split=Split("search", seed=split_seed), seed=seed, data=small_data)
        return [stream.held_out(t).labels for t in range(len(stream))]

    first = drawn(0, 1)
    assert all(map(torch.equal, first, drawn(0, 2)))
    assert not all(len(a) == len(b) and torch.equal(a, b) for a, b in zip(first, drawn(1, 1), strict=True))


def test_a_task_that_is_over_cannot_be_trained_on(name: str, small_data: Path) -> None:
    stream = open_stream(name, split=SEARCH, seed=0, data=small_data)
    before = stream.held_out(0)
    stream.forget(1)
    stream.forget(0)  # does not bring task 1 back
    for t in (0, 1):
        with pytest.raises(RuntimeError, match=f"task {t} is over"):
            stream.train(t)
        assert len(stream.held_out(t)) > 0
    assert len(stream.train(2)) > 0
    assert_same(before, stream.held_out(0))


def test_everything_is_all_tasks_one_after_the_other(name: str, small_data: Path) -> None:
    stream = open_stream(name, split=SEARCH, seed=0, data=small_data)
    whole = stream.everything()
    assert (whole.rows is None) == (stream.benchmark.scenario == "domain")  # else it is rows of the mapped file
    start = 0
    for t in range(len(stream)):
        task = stream.train(t)
        assert_same(whole.gather(torch.arange(start, start + len(task))), task)
        start += len(task)
    assert start == len(whole)


def test_there_is_no_task_beyond_the_last(name: str, small_data: Path) -> None:
    stream = open_stream(name, split=SEARCH, seed=0, data=small_data)
    for ask in (stream.train, stream.held_out, stream.classes, stream.forget):
        for t in (-1, len(stream)):
            with pytest.raises(IndexError, match=name):
                ask(t)


# The test set


TEST_FILES = ["cifar-10-batches-py/test_batch", "MNIST/raw/t10k-*", "tiny-imagenet-200/val"]


def without_test_files(root: Path, new: Path) -> Path:
    """The same data root, of links, without any test file and without a cache."""
    hidden = {path for pattern in TEST_FILES for path in root.glob(pattern)}
    assert hidden
    for folder in ("cifar-10-batches-py", "MNIST/raw", "tiny-imagenet-200"):
        (new / folder).mkdir(parents=True)
        for path in (root / folder).iterdir():
            if path not in hidden:
                (new / folder / path.name).symlink_to(path)
    return new


@pytest.mark.parametrize("name", ["seq_cifar10", "seq_tiny_imagenet", "r_mnist"])
def test_a_search_needs_no_test_file(name: str, root: Path, tmp_path: Path) -> None:
    before = open_stream(name, split=SEARCH, seed=1, data=root)
    after = open_stream(name, split=SEARCH, seed=1, data=without_test_files(root, tmp_path / "searched"))
    assert_same_streams(before, after)


@pytest.mark.parametrize("name", ["seq_cifar10", "seq_tiny_imagenet", "r_mnist"])
def test_deleting_the_test_files_does_not_disturb_a_search(name: str, own_tiny_imagenet: Path) -> None:
    before = open_stream(name, split=SEARCH, seed=1, data=own_tiny_imagenet)
    for pattern in TEST_FILES:
        for path in own_tiny_imagenet.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert_same_streams(before, open_stream(name, split=SEARCH, seed=1, data=own_tiny_imagenet))
    assert not list(own_tiny_imagenet.glob("co2l-cache/*-test-*"))


def test_only_an_evaluation_shows_the_test_set(name: str, small_data: Path) -> None:
    stream = open_stream(name, split=EVALUATION, seed=0, data=small_data)
    chosen = stream.benchmark
    test = load(chosen.source, "test", small_data)
    if stream.benchmark.scenario == "class":
        held_out = [stream.held_out(t) for t in range(len(stream))]
        assert contents(held_out) == contents(
            [Examples(test.images, test.labels, test.labels // chosen.classes_per_task)]
        )
    else:
        assert torch.equal(stream.held_out(3).labels, test.labels)
        assert stream.fingerprint == load(stream.benchmark.source, "train", small_data).fingerprint


# The paper's benchmarks, on the real files


def test_seq_cifar10_has_the_papers_tasks(real_data: Path) -> None:
    search = open_stream("seq_cifar10", split=SEARCH, seed=0, data=real_data)
    evaluation = open_stream("seq_cifar10", split=EVALUATION, seed=0, data=real_data)
    assert [search.classes(t) for t in range(5)] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    trained = [len(search.train(t)) for t in range(5)]
    validated = [len(search.held_out(t)) for t in range(5)]
    assert (sum(trained), sum(validated)) == (45_000, 5_000)
    # Drawn without replacement: 1,000 of each task expected, standard deviation 26.8.
    assert all(abs(n - 1_000) < 5 * 26.8 for n in validated)
    assert len(set(validated)) > 1  # at random, not so many per class
    assert [len(evaluation.train(t)) for t in range(5)] == [10_000] * 5
    assert [len(evaluation.held_out(t)) for t in range(5)] == [2_000] * 5
    theirs = torchvision.datasets.CIFAR10(real_data, train=True)
    rows = np.flatnonzero(np.isin(theirs.targets, [4, 5]))
    ours = evaluation.train(2)
    assert np.array_equal(ours.images.permute(0, 2, 3, 1).numpy(), theirs.data[rows])
    assert ours.labels.tolist() == [theirs.targets[row] for row in rows]


def test_seq_tiny_imagenets_tasks_follow_wnids(root: Path) -> None:
    stream = open_stream("seq_tiny_imagenet", split=EVALUATION, seed=0, data=root)
    whole = load("tiny_imagenet", "train", root)
    for t in (0, 9):
        assert stream.classes(t) == tuple(range(20 * t, 20 * t + 20))
        ours = whole.labels // 20 == t
        labels = whole.labels[ours]
        assert_same(stream.train(t), Examples(whole.images[ours], labels, labels // 20))


# Rotation


@pytest.mark.parametrize("name", ["r_mnist", "r_digits"])
def test_each_domain_has_one_angle_for_train_and_test(name: str, root: Path) -> None:
    stream = open_stream(name, split=EVALUATION, seed=5, data=root)
    assert len(set(stream.angles)) == len(stream)
    assert all(0 <= angle < 180 for angle in stream.angles)
    how = modes.NEAREST if name == "r_mnist" else modes.BILINEAR
    for part, domain in (("train", stream.train), ("test", stream.held_out)):
        raw = load(stream.benchmark.source, part, root)
        for t in (0, 4):
            examples = domain(t)
            assert torch.equal(examples.labels, raw.labels)
            for i in range(0, len(examples), len(examples) // 40):
                theirs = functional.rotate(raw.images[i], stream.angles[t], interpolation=how)
                assert torch.equal(examples.images[i], theirs)


def test_angles_are_drawn_by_the_seed(small_data: Path) -> None:
    first, again, other = (
        open_stream("r_mnist", split=SEARCH, seed=seed, data=small_data).angles for seed in (0, 0, 1)
    )
    assert first == again
    assert not set(first) & set(other)


def test_every_domain_validates_on_the_same_digits(small_data: Path) -> None:
    stream = open_stream("r_mnist", split=SEARCH, seed=0, data=small_data)
    raw = load("mnist", "train", small_data)
    chosen = validation_rows(raw.labels, SEARCH)
    for t in (0, 7, 19):
        held_out = stream.held_out(t)
        assert torch.equal(held_out.labels, raw.labels[chosen])
        assert torch.equal(held_out.images, functional.rotate(raw.images[chosen], stream.angles[t]))


def test_each_domain_has_one_permutation_for_train_and_test(small_data: Path) -> None:
    stream = open_stream("p_mnist", split=EVALUATION, seed=5, data=small_data)
    orders = []
    for part, domain in (("train", stream.train), ("test", stream.held_out)):
        raw = load("mnist", part, small_data)
        for t in (0, 1, 19):
            examples = domain(t)
            assert torch.equal(examples.labels, raw.labels)
            order = torch.randperm(784, generator=generator_for(5, "permutation", t))
            assert torch.equal(examples.images.flatten(1), raw.images.flatten(1)[:, order])
            orders.append(tuple(order.tolist()))
    assert len(set(orders)) == 3  # the same for train and test, and another in every task
    other = open_stream("p_mnist", split=EVALUATION, seed=6, data=small_data)
    assert not torch.equal(other.train(0).images, stream.train(0).images)


@given(angle=st.floats(0, 180, exclude_max=True), size=st.sampled_from([(1, 28, 28), (3, 9, 9), (1, 5, 8)]))
def test_rotating_a_batch_equals_rotating_each_image(angle: float, size: tuple[int, int, int]) -> None:
    images = torch.randint(0, 256, (3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    theirs = torch.stack([functional.rotate(image, angle) for image in images])
    assert torch.equal(rotate(images, angle, "nearest"), theirs)


# Splits


@given(n=st.integers(1, 500), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 2**40), other=st.integers(0, 2**40))
def test_validation_is_a_share_of_the_rows(n: int, fraction: float, seed: int, other: int) -> None:
    rows = validation_rows(torch.zeros(n), Split("search", fraction, seed)).tolist()
    assert len(rows) == len(set(rows)) == round(fraction * n)
    assert rows == sorted(rows)
    assert set(rows) <= set(range(n))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_a_fraction_outside_of_0_and_1_is_refused(fraction: float) -> None:
    with pytest.raises(Co2lError, match="between 0 and 1"):
        Split("search", fraction)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(Co2lError, match="did you mean 'evaluation'"):
        Split("evaluatoin")  # type: ignore[arg-type]


def test_all_tasks_of_all_streams_share_one_mapped_file(own_data: Path) -> None:
    streams = [open_stream("seq_cifar10", split=SEARCH, seed=0, data=own_data) for _ in range(2)]
    addresses = {stream.train(t).pool.data_ptr() for stream in streams for t in range(5)}
    assert len(addresses) == len(streams)
    (file,) = [path for path in (own_data / "co2l-cache").glob("*.npy") if "labels" not in path.name]
    mapped = Path(f"/proc/{os.getpid()}/maps")
    if mapped.exists():
        assert mapped.read_text().count(str(file)) == len(streams)
