"""A study as a notebook sees it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import sample_studies

import co2l
from co2l.errors import Co2lError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("work") / "runs"
    root.mkdir()
    sample_studies.record(root, "seq_digits", sample_studies.search(), sample_studies.made_up)
    sample_studies.record(
        root, "seq_digits.test", sample_studies.evaluation({"buffer_size": [50, 100]}), sample_studies.made_up
    )
    return root


def test_what_was_selected(root: Path) -> None:
    best = co2l.load_study(root, "seq_digits").best()
    assert [(each["group"], each["settings"]["eta"]) for each in best] == [
        ({"buffer_size": 50}, 0.01),
        ({"buffer_size": 100}, 0.01),
    ]
    assert co2l.load_study(str(root), "seq_digits.test").best() == []


def test_every_trial_is_a_row(root: Path) -> None:
    frame = co2l.load_study(f"sqlite:///{root}/study.db", "seq_digits").frame()
    assert frame.shape[0] == 8
    assert set(frame["status"]) == {"done"}
    row = frame[(frame["eta"] == 0.01) & (frame["buffer_size"] == 50) & (frame["kappa"] == 0.1)]
    assert row["class_il"].item() == 80.5  # 55 + 50/20 + 20 + 3
    assert row["task_il"].item() == 90.25


@pytest.mark.parametrize(("study", "name"), [("seq_digits", "history"), ("seq_digits.test", "matrix")])
def test_figures_by_name(root: Path, study: str, name: str) -> None:
    assert co2l.load_study(root, study).figure(name).axes


def test_a_wrong_name_is_answered_with_the_right_one(root: Path) -> None:
    with pytest.raises(Co2lError, match="did you mean 'importance'"):
        co2l.load_study(root, "seq_digits").figure("importances")
    with pytest.raises(Co2lError, match="did you mean 'seq_digits'"):
        co2l.load_study(root, "seq_digit")


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_the_examples_run(
    root: Path, example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root.parent)
    runpy.run_path(str(EXAMPLES / example))
    assert capsys.readouterr().out.strip()


def test_importing_co2l_loads_nothing_heavy() -> None:
    code = "import sys, co2l; print(sorted({'torch', 'optuna', 'matplotlib', 'pandas', 'ray'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
