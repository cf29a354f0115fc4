"""CIFAR-100 is read as torchvision reads it; its counts and the classes of 5, 10 and 20 tasks are as published."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import failure

from co2l.data.sources import load
from co2l.data.streams import Split
from co2l.data.torchvision_import import torchvision
from co2l.learning.methods import configure

FOLDER = "cifar-100-python"


@pytest.mark.parametrize("part", ["train", "test"])
def test_equals_torchvisions_reading(small_data: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchvision.datasets.CIFAR100, "_check_integrity", lambda _: True)
    monkeypatch.setattr(torchvision.datasets.CIFAR100, "_load_meta", lambda _: None)
    theirs = torchvision.datasets.CIFAR100(small_data, train=part == "train")
    ours = load("cifar100", part, small_data)
    assert np.array_equal(ours.images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert ours.labels.tolist() == theirs.targets


def test_fine_classes_only(own_data: Path) -> None:
    file = own_data / FOLDER / "train"
    batch = pickle.loads(file.read_bytes())
    assert load("cifar100", "train", own_data).labels.tolist() == batch["fine_labels"]
    del batch["fine_labels"]
    file.write_bytes(pickle.dumps(batch))
    assert failure("cifar100", "train", own_data).startswith(f"{file}: not a CIFAR-100 batch or damaged")


def test_missing_without_network(own_data: Path, offline: None) -> None:
    (own_data / FOLDER / "test").unlink()
    assert load("cifar100", "train", own_data).labels.numel() == 600
    assert "test is missing and CIFAR100 cannot be downloaded" in failure("cifar100", "test", own_data)


@pytest.mark.parametrize("tasks", [5, 10, 20])
def test_counts_and_classes_of_tasks(whole_cifar100: Path, tasks: int) -> None:
    config = configure("seq_cifar100", "er", {"tasks": tasks}, split=Split("evaluation"))
    stream = config.open_stream(whole_cifar100)
    each = 100 // tasks
    assert len(stream) == tasks
    assert [stream.sizes(t) for t in range(tasks)] == [(each * 500, each * 100)] * tasks
    for t in (0, tasks - 1):
        assert stream.classes(t) == tuple(range(t * each, (t + 1) * each))
        assert torch.bincount(stream.train(t).labels, minlength=100).tolist() == [
            500 if t * each <= label < (t + 1) * each else 0 for label in range(100)
        ]
    search = configure("seq_cifar100", "er", {"tasks": tasks}).open_stream(whole_cifar100)
    assert sum(train for train, _ in map(search.sizes, range(tasks))) == 45_000
    assert configure("seq_cifar100", "er").spec.tasks == 10
