"""The command as a process: files, MLflow, errors as one line, and the page in a real browser without a network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import run

sys.path.insert(0, str(Path(__file__).parents[1] / "reporting"))
import archives
import browser


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    archives.fill(folder)
    return folder
