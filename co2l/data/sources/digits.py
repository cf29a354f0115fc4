"""The 8 × 8 digits that come with scikit-learn: nothing to download, small enough to decode in every process."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from co2l.data.cache import Arrays, in_memory
from co2l.data.randomness import generator_for
from co2l.data.sources.reading import Part
from co2l.errors import Co2lError
from co2l.shipped import install_command


def load(root: Path, part: Part) -> Arrays:
    """A fifth of each class, always the same one, is test; the values 0..16 become 0..255."""
    del root
    pixels, labels = _read()
    test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        rows = np.flatnonzero(labels == digit)
        order = torch.randperm(len(rows), generator=generator_for(0, "digits", digit)).numpy()
        test[rows[order[: round(len(rows) / 5)]]] = True
    chosen = test if part == "test" else ~test
    images = np.rint(pixels[chosen] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return in_memory(images, labels[chosen].astype(np.int64))


def _read() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pixels and labels from scikit-learn's file: importing scikit-learn takes a second in every process."""
    package = importlib.util.find_spec("sklearn")
    path = Path(package.origin if package and package.origin else "").parent / "datasets/data/digits.csv.gz"
    if not path.is_file():
        raise Co2lError("scikit-learn's digits are missing", where=str(path), fix=install_command())
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-1], table[:, -1]
