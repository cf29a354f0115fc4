"""Datasets are found by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from co2l.data.sources import load
from co2l.errors import Co2lError


def test_an_unknown_dataset_answers_with_the_closest(tmp_path: Path) -> None:
    with pytest.raises(Co2lError, match="unknown dataset 'cifar'; did you mean 'cifar10'"):
        load("cifar", "train", tmp_path)
