"""The digits are scikit-learn's, a fifth of each class for testing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from co2l.data.sources import load


def test_digits_are_those_of_scikit_learn_cut_in_two(tmp_path: Path) -> None:
    pixels, labels = load_digits(return_X_y=True)
    train, test = (load("digits", part, tmp_path) for part in ("train", "test"))
    ours = torch.cat([train.images, test.images]).flatten(1)
    theirs = [(tuple(round(v * 255 / 16) for v in row), label) for row, label in zip(pixels, labels, strict=True)]
    assert sorted(
        (tuple(row), label)
        for row, label in zip(ours.tolist(), torch.cat([train.labels, test.labels]).tolist(), strict=True)
    ) == sorted(theirs)
    for digit, n in enumerate(np.bincount(labels)):
        assert abs((test.labels == digit).sum().item() - n / 5) <= 0.5
    assert list(tmp_path.iterdir()) == []  # needs no data root
