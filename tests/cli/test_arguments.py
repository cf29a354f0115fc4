"""The flags that searches and evaluations share: what they mean, and what stands in for them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from spaces import space_of

from co2l.cli.arguments import add_engine_arguments, options_of, study_of, with_resources
from co2l.errors import Co2lError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ROOT", "STORE", "STORAGE", "TRACKING_URI", "DATA"):
        monkeypatch.delenv(f"CO2L_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_everything_is_below_runs_by_default(tmp_path: Path) -> None:
    options = options_of(parsed(), "s", None, seed=3)
    assert (options.root, options.study, options.seed) == (tmp_path / "runs", "s", 3)
    assert options.store == f"{tmp_path}/runs/store"
    assert options.storage == f"sqlite:///{tmp_path}/runs/study.db"
    assert options.tracking_uri == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert (options.address, options.reuse, options.fresh, options.save_every) == (None, True, False, 60.0)


def test_a_flag_comes_before_its_variable_and_a_variable_before_the_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CO2L_ROOT", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("CO2L_STORE", "s3://bucket/store")
    monkeypatch.setenv("CO2L_STORAGE", "postgresql://u@h/d")
    options = options_of(parsed("--store", "mine", "--no-reuse", "--fresh"), "s", None)
    assert options.root == tmp_path / "elsewhere"
    assert options.store == "mine"
    assert options.storage == "postgresql://u@h/d"
    assert options.tracking_uri == f"sqlite:///{tmp_path}/elsewhere/mlflow.db"
    assert (options.reuse, options.fresh) == (False, True)


def test_resources_of_a_flag_replace_those_of_the_space() -> None:
    space = space_of(resources={"cpus": 2, "gpus": 0.5})
    assert with_resources(space, parsed()) is space
    one = with_resources(space, parsed("--cpus-per-trial", "4"))
    assert (one.resources.cpus, one.resources.gpus) == (4, 0.5)
    with pytest.raises(Co2lError, match="gpus"):
        with_resources(space, parsed("--gpus-per-trial", "1.5"))


@pytest.mark.parametrize(
    ("path", "study"),
    [
        ("mine.yaml", "mine"),
        ("folder/mine.yaml", "mine"),
        ("search_spaces/seq_digits.yaml", "seq_digits"),
        ("search_spaces/paper/digits/ird_ablation.yaml", "paper-digits-ird_ablation"),
    ],
)
def test_a_study_is_named_after_its_file(path: str, study: str) -> None:
    assert study_of(path) == study
