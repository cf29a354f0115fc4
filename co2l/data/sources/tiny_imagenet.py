"""Tiny-ImageNet: JPEGs of 64 × 64 in the original folder or its archive; class i is line i of wnids.txt."""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import rich.console
import rich.progress
from PIL import Image

from co2l.data.cache import Arrays, Images, Labels, stamp
from co2l.data.sources.reading import ELSEWHERE, Part, decoded, reading, require
from co2l.errors import Co2lError

NAME = "tiny-imagenet-200"


def load(root: Path, part: Part) -> Arrays:
    folder, archive = root / NAME, root / f"{NAME}.zip"
    if not folder.is_dir() and archive.is_file():
        return decoded(root, "tiny_imagenet", part, stamp([archive]), lambda: _decode(_Archive, archive, part))
    for needed in ["wnids.txt", "train" if part == "train" else "val/val_annotations.txt"]:
        if not (folder / needed).exists():
            raise Co2lError(
                f"Tiny-ImageNet is missing ({needed})",
                where=str(folder),
                fix=f"put {NAME}.zip (cs231n.stanford.edu/{NAME}.zip) beside it, {ELSEWHERE}",
            )
    # Adding or removing an image changes its folder's time, so 100,000 files need no look.
    marks = [folder / "wnids.txt"]
    marks += sorted(folder.glob("train/*/images")) if part == "train" else sorted(folder.glob("val/*"))
    files = stamp(marks, (folder / "wnids.txt").read_bytes())
    return decoded(root, "tiny_imagenet", part, files, lambda: _decode(_Folder, folder, part))


class _Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def listing(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in sorted(path.name for path in (self.path / folder).iterdir())]

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


class _Archive:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = zipfile.ZipFile(path)
        self.files = defaultdict(list)
        for name in sorted(self.archive.namelist()):
            self.files[name.rpartition("/")[0]].append(name.removeprefix(f"{NAME}/"))

    def listing(self, folder: str) -> list[str]:
        return self.files[f"{NAME}/{folder}"]

    def read(self, name: str) -> bytes:
        return self.archive.read(f"{NAME}/{name}")


def _decode(kind: type[_Folder] | type[_Archive], path: Path, part: Part) -> tuple[Images, Labels]:
    with reading(path, "Tiny-ImageNet"):
        tree = kind(path)
        names, labels = _listed(tree, part)
    images = np.empty((len(names), 3, 64, 64), np.uint8)

    def decode(i: int) -> None:
        with reading(path / names[i], "an image"), Image.open(io.BytesIO(tree.read(names[i]))) as image:
            require(image.size == (64, 64), f"it has {image.size} pixels")
            images[i] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)  # some are grayscale

    title, console = f"decoding Tiny-ImageNet ({part})", rich.console.Console(stderr=True)
    with ThreadPoolExecutor() as pool:
        done = pool.map(decode, range(len(names)))
        for _ in rich.progress.track(done, title, total=len(names), console=console, transient=True):
            pass
    return images, labels


def _listed(tree: _Folder | _Archive, part: Part) -> tuple[list[str], Labels]:
    """The names of all images and their classes."""
    wnids = tree.read("wnids.txt").decode().split()
    class_of = {wnid: i for i, wnid in enumerate(wnids)}
    require(len(class_of) == len(wnids) == 200, f"wnids.txt has {len(class_of)} classes, not 200")
    if part == "train":
        listed = [(name, class_of[w]) for w in wnids for name in tree.listing(f"train/{w}/images")]
        examples = [(name, label) for name, label in listed if name.endswith(".JPEG")]
    else:
        lines = tree.read("val/val_annotations.txt").decode().splitlines()
        examples = [(f"val/images/{line.split()[0]}", class_of[line.split()[1]]) for line in lines]
    labels = np.array([label for _, label in examples], dtype=np.int64)
    count = np.bincount(labels, minlength=200)  # equal in the whole dataset, but not if it was unpacked in part
    fewest, most = count.min(), count.max()
    require(fewest == most > 0, f"its classes have {fewest} to {most} images each")
    return [name for name, _ in examples], labels
