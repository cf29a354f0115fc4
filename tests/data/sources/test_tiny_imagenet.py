"""Tiny-ImageNet is read in the order of wnids.txt from folder or archive; failures are named in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import cut, failure, scribble
from PIL import Image

from co2l.data.sources import load

FOLDER = "tiny-imagenet-200"


def test_tiny_imagenets_class_i_is_line_i_of_wnids(root: Path) -> None:
    folder = root / FOLDER
    wnids = (folder / "wnids.txt").read_text().splitlines()
    assert wnids != sorted(wnids)
    ours = load("tiny_imagenet", "train", root)
    n = len(ours.labels) // 200
    assert torch.bincount(ours.labels).tolist() == [n] * 200
    for i in (0, 1, 57, 199):
        files = (folder / "train" / wnids[i] / "images").iterdir()
        theirs = {np.asarray(Image.open(file).convert("RGB")).tobytes() for file in files}
        images = ours.images[ours.labels == i].permute(0, 2, 3, 1).contiguous().numpy()
        assert {image.tobytes() for image in images} == theirs


def test_tiny_imagenets_test_set_is_its_annotated_val_set(root: Path) -> None:
    folder = root / FOLDER
    wnids = (folder / "wnids.txt").read_text().splitlines()
    lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
    ours = load("tiny_imagenet", "test", root)
    assert [wnids[label] for label in ours.labels] == [line.split("\t")[1] for line in lines]
    for i in range(0, len(lines), 37):
        image = Image.open(folder / "val" / "images" / lines[i].split("\t")[0]).convert("RGB")
        assert np.array_equal(ours.images[i].permute(1, 2, 0).numpy(), np.asarray(image))


def test_gray_images_have_three_equal_channels(root: Path) -> None:
    folder = root / FOLDER
    lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
    modes = [Image.open(folder / "val" / "images" / line.split("\t")[0]).mode for line in lines]
    gray = torch.tensor([mode == "L" for mode in modes])
    assert gray.any()
    images = load("tiny_imagenet", "test", root).images[gray]
    assert torch.equal(images[:, 0], images[:, 1])
    assert torch.equal(images[:, 0], images[:, 2])


@pytest.mark.parametrize("part", ["train", "test"])
def test_tiny_imagenets_archive_equals_its_folder(own_tiny_imagenet: Path, part: str) -> None:
    folder = load("tiny_imagenet", part, own_tiny_imagenet)
    shutil.make_archive(str(own_tiny_imagenet / FOLDER), "zip", own_tiny_imagenet, FOLDER)
    shutil.rmtree(own_tiny_imagenet / FOLDER)
    assert load("tiny_imagenet", part, own_tiny_imagenet).fingerprint == folder.fingerprint


def test_missing_tiny_imagenet_says_what_where_and_what_to_do(own_tiny_imagenet: Path) -> None:
    shutil.rmtree(own_tiny_imagenet / FOLDER / "val")
    assert "Tiny-ImageNet is missing (val/val_annotations.txt)" in failure("tiny_imagenet", "test", own_tiny_imagenet)
    shutil.rmtree(own_tiny_imagenet / FOLDER)
    line = failure("tiny_imagenet", "train", own_tiny_imagenet)
    assert line.startswith(f"{own_tiny_imagenet / FOLDER}: Tiny-ImageNet is missing")
    assert "--data / CO2L_DATA" in line


@pytest.mark.parametrize("damage", [cut, scribble])
def test_a_damaged_file_is_named(own_tiny_imagenet: Path, damage: Callable[[Path], None]) -> None:
    file = sorted((own_tiny_imagenet / FOLDER).glob("train/*/images/*_2.JPEG"))[0]
    damage(file)
    assert failure("tiny_imagenet", "train", own_tiny_imagenet).startswith(f"{file}: not ")


@pytest.mark.parametrize("damage", [cut, scribble])
def test_a_damaged_archive_is_named(own_tiny_imagenet: Path, damage: Callable[[Path], None]) -> None:
    archive = Path(shutil.make_archive(str(own_tiny_imagenet / FOLDER), "zip", own_tiny_imagenet, FOLDER))
    shutil.rmtree(own_tiny_imagenet / FOLDER)
    damage(archive)
    assert failure("tiny_imagenet", "train", own_tiny_imagenet).startswith(f"{archive}: not ")


def test_a_partly_unpacked_tiny_imagenet_is_refused(own_tiny_imagenet: Path) -> None:
    sorted((own_tiny_imagenet / FOLDER).glob("train/*/images/*_2.JPEG"))[0].unlink()
    assert "3 to 4 images each" in failure("tiny_imagenet", "train", own_tiny_imagenet)
