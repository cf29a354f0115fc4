"""Datasets are found by name, below the data root that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from co2l.data.sources import data_root, load
from co2l.errors import Co2lError


def test_an_unknown_dataset_answers_with_the_closest(tmp_path: Path) -> None:
    with pytest.raises(Co2lError, match="unknown dataset 'cifar'; did you mean 'cifar10'"):
        load("cifar", "train", tmp_path)


def test_data_root_is_the_argument_or_the_environment_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CO2L_DATA", "elsewhere")
    assert data_root("there") == tmp_path / "there"
    assert data_root(None) == tmp_path / "elsewhere"
    monkeypatch.delenv("CO2L_DATA")
    assert data_root(None) == tmp_path / "data"
