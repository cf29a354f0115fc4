"""CIFAR-10 is read as torchvision reads it, and runs no code; missing and damaged files are named in one line."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from damage import cut, failure, scribble

from co2l.data.sources import load
from co2l.data.torchvision_import import torchvision

FOLDER = "cifar-10-batches-py"


@pytest.mark.parametrize("train", [True, False])
def test_cifar10_equals_torchvisions_reading(real_data: Path, train: bool) -> None:
    theirs = torchvision.datasets.CIFAR10(real_data, train=train)
    ours = load("cifar10", "train" if train else "test", real_data)
    assert np.array_equal(ours.images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert ours.labels.tolist() == theirs.targets


def test_cifar10_is_read_in_the_order_of_its_batches(small_data: Path) -> None:
    # The files were written by pickle itself, so it may read them here.
    batches = [pickle.loads((small_data / FOLDER / f"data_batch_{i}").read_bytes()) for i in range(1, 6)]
    ours = load("cifar10", "train", small_data)
    assert ours.labels.tolist() == [label for batch in batches for label in batch["labels"]]
    red_then_green_then_blue = np.concatenate([batch["data"] for batch in batches])
    assert np.array_equal(ours.images.flatten(1).numpy(), red_then_green_then_blue)


def test_missing_without_network_says_what_where_and_what_to_do(own_data: Path, offline: None) -> None:
    path = own_data / FOLDER / "data_batch_3"
    path.unlink()
    before = sorted(own_data.rglob("*"))
    line = failure("cifar10", "train", own_data)
    assert line.startswith(f"{path.parent}: {path.name} is missing and ")
    assert "--data / CO2L_DATA" in line
    assert sorted(own_data.rglob("*")) == before  # no half download is left


def test_a_download_goes_where_the_files_are_looked_for(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_here(root: str, *, download: bool) -> None:
        assert download
        shutil.copytree(small_data / FOLDER, Path(root) / FOLDER)

    monkeypatch.setattr(torchvision.datasets, "CIFAR10", from_here)
    new = tmp_path / "new"
    assert load("cifar10", "test", new).fingerprint == load("cifar10", "test", small_data).fingerprint
    assert [path.name for path in new.iterdir() if path.name != "co2l-cache"] == [FOLDER]


@pytest.mark.parametrize("damage", [cut, scribble])
def test_a_damaged_file_is_named(own_data: Path, damage: Callable[[Path], None]) -> None:
    file = own_data / FOLDER / "data_batch_2"
    damage(file)
    assert failure("cifar10", "train", own_data).startswith(f"{file}: not ")


@pytest.mark.parametrize("labels", [[*range(10)] * 3, [10] * 40, [-1] * 40])
def test_labels_that_do_not_fit_are_refused(own_data: Path, labels: list[int]) -> None:
    file = own_data / FOLDER / "data_batch_4"
    file.write_bytes(pickle.dumps({"data": np.zeros((40, 3072), np.uint8), "labels": labels}))
    assert failure("cifar10", "train", own_data).startswith(f"{file}: not ")


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("trapped"),)


def test_a_batch_cannot_run_code(own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = own_data / FOLDER / "data_batch_1"
    file.write_bytes(pickle.dumps({"data": Trap(), "labels": []}))
    assert failure("cifar10", "train", own_data).startswith(f"{file}: not ")
    assert not Path("trapped").exists()
