"""Two searches share stages; one is removed and the store is cleaned: the other continues to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import call_here

import co2l

SPACE = """\
benchmark: seq_digits
settings: {E_0: 2, E_t: 1, probe_epochs: 1, matrix_probe: none, batch_size: 64}
axes:
  eta: [0.01]
  kappa: [0.1, 0.2]
  buffer_size: [50, 100]
algorithm: random
samples: 2
"""


def typed(folder: Path, *words: str) -> str:
    done = call_here("co2l.__main__", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def results(folder: Path) -> dict[str, Any]:
    """Every number of each trial, with a digest of its weights."""
    study = co2l.load_study(folder / "runs", "stays")
    return {key: entry.result for key, entry in study._stored.entries.items()}


@pytest.mark.usefixtures("shared_ray")
def test_the_other_study_continues_bit_equal(tmp_path: Path) -> None:
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    for folder in (shared, alone):
        folder.mkdir()
        (folder / "space.yaml").write_text(SPACE)
    tune = "tune", "--space", "space.yaml", "--quiet"
    typed(shared, *tune, "--study", "goes", "--set", "kappa_star=0.5")  # its later tasks are others
    typed(shared, *tune, "--study", "stays")
    removed = json.loads(typed(shared, "rm", "goes", "--yes", "--json"))[0]
    assert (removed["trials"], removed["runs"]) == (2, 3)
    cleaned = json.loads(typed(shared, "gc", "--delete", "--older-than", "0", "--json"))
    assert cleaned["studies"] == 1
    store = {path.suffix for path in (shared / "runs" / "store").rglob("*") if path.is_file()}
    assert ".state" in store, "the first stage, which both had, is gone"
    typed(shared, *tune, "--study", "stays", "--samples", "4")
    typed(alone, *tune, "--study", "stays", "--samples", "4")
    found = results(shared)
    assert len(found) == 4
    assert found == results(alone)
    assert all(result["weights"] for result in found.values())
    epochs = co2l.load_study(shared / "runs", "stays").summary().cost
    assert (epochs.epochs_trained, epochs.epochs_reused) == (4 * 4, 4 * 2)  # task 1 was trained by the study that went
    assert [row["name"] for row in json.loads(typed(shared, "studies", "--json"))] == ["stays"]
    assert not list((shared / "runs" / "selected").glob("goes*"))
    again = json.loads(typed(shared, "gc", "--older-than", "0", "--json"))
    assert again["unreachable"] == []
