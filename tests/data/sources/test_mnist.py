"""MNIST is read as torchvision reads it, plain or gzipped; missing and damaged files are named in one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from damage import cut, failure, scribble

from co2l.data.sources import load
from co2l.data.torchvision_import import torchvision

FOLDER = "MNIST/raw"


@pytest.mark.parametrize("train", [True, False])
def test_mnist_equals_torchvisions_reading(root: Path, train: bool) -> None:
    theirs = torchvision.datasets.MNIST(root, train=train)
    ours = load("mnist", "train" if train else "test", root)
    assert torch.equal(ours.images[:, 0], theirs.data)
    assert torch.equal(ours.labels, theirs.targets)


def test_gzipped_mnist_is_read_too(own_data: Path) -> None:
    plain = load("mnist", "train", own_data)
    for file in list((own_data / FOLDER).iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert load("mnist", "train", own_data).fingerprint == plain.fingerprint


def test_missing_without_network_says_what_where_and_what_to_do(own_data: Path, offline: None) -> None:
    path = own_data / FOLDER / "train-labels-idx1-ubyte"
    path.unlink()
    before = sorted(own_data.rglob("*"))
    line = failure("mnist", "train", own_data)
    assert line.startswith(f"{path.parent}: {path.name} is missing and ")
    assert "--data / CO2L_DATA" in line
    assert sorted(own_data.rglob("*")) == before  # no half download is left


@pytest.mark.parametrize("damage", [cut, scribble])
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
def test_a_damaged_file_is_named(own_data: Path, name: str, damage: Callable[[Path], None]) -> None:
    file = own_data / FOLDER / name
    damage(file)
    assert failure("mnist", "train", own_data).startswith(f"{file}: not ")


@pytest.mark.parametrize("damage", [cut, scribble])
def test_a_damaged_archive_is_named(own_data: Path, damage: Callable[[Path], None]) -> None:
    images = own_data / FOLDER / "train-images-idx3-ubyte"
    archive = images.with_name(f"{images.name}.gz")
    archive.write_bytes(gzip.compress(images.read_bytes()))
    images.unlink()
    damage(archive)
    assert failure("mnist", "train", own_data).startswith(f"{archive}: not ")
