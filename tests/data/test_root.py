"""The data root is what a command was given, or the environment's, or here; and it is the same everywhere inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from co2l.data.root import data_below, data_root


def test_the_data_root_is_the_folder_given_or_the_environments_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CO2L_DATA", "elsewhere")
    assert data_root("there") == tmp_path / "there"
    assert data_root() == tmp_path / "elsewhere"
    with data_below("there"):
        monkeypatch.chdir("/")  # what was given is seen from where the command began
        assert data_root() == tmp_path / "there"
        with data_below(None):
            assert data_root() == tmp_path / "there"
        assert data_root("/other") == Path("/other")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError), data_below("there"):
        _ = 1 / 0
    assert data_root() == tmp_path / "elsewhere"
    monkeypatch.delenv("CO2L_DATA")
    assert data_root() == tmp_path / "data"
