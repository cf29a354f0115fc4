"""python -m co2l.tune, with a real Ray and a real MLflow store: once, again, without reuse, sealed, and refused."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
import time
from pathlib import Path

import pytest
import yaml
from commands import call
from searches import CELLS, NAIVE, PLANNED, SPACE, Undisturbed, check_complete, runs, scores, tune, write_space


def test_a_search_its_answer_and_its_second_time(undisturbed: Undisturbed) -> None:
    first, found = undisturbed.outcome, undisturbed.scores
    assert (first["epochs_trained"], first["epochs_reused"]) == (PLANNED, NAIVE - PLANNED)
    assert len(first["selected"]) == 1
    assert len(found) == CELLS
    best = max(found.values(), key=lambda result: result["score"])
    assert first["selected"][0]["score"] == best["score"]
    assert len({result["weights"] for result in found.values()}) == CELLS
    (chosen,) = yaml.safe_load((undisturbed.root / "selected" / "small.yaml").read_text())
    assert chosen["settings"]["eta"] in SPACE["axes"]["eta"]

    check_complete(undisturbed.root)
    (parent,), children = runs(f"sqlite:///{undisturbed.root}/mlflow.db")
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    selected = [run for run in children if run.data.tags.get("co2l.selected") == "true"]
    assert [run.data.tags["co2l.cell"] for run in selected] == first["selected"][0]["cells"]
    assert selected[0].data.metrics["val/score"] == best["score"]

    assert tune(undisturbed.folder) == first
    assert scores(undisturbed.root) == found
    check_complete(undisturbed.root)


def test_without_reuse_every_score_is_the_same(folder: Path, undisturbed: Undisturbed) -> None:
    alone = tune(folder, "--no-reuse")
    assert scores(folder / "runs") == undisturbed.scores
    assert alone["selected"] == undisturbed.outcome["selected"]
    assert (undisturbed.outcome["epochs_trained"], alone["epochs_trained"]) == (PLANNED, NAIVE)
    _, children = runs(f"sqlite:///{folder}/runs/mlflow.db")
    spans = [(run.info.start_time, run.info.end_time) for run in children]
    most = max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
    assert most <= (os.cpu_count() or 1)  # Tune holds one more ready, which neither runs nor costs
    assert alone["trial_hours"] * 3.6e6 == pytest.approx(sum(end - begin for begin, end in spans), rel=0.01)


def test_without_test_files_the_search_finds_the_same(tmp_path: Path, own_data: Path) -> None:
    settings = {"E_0": 1, "E_t": 1, "probe_epochs": 2, "batch_size": 64, "buffer_size": 20, "matrix_probe": "none"}
    write_space(tmp_path, benchmark="r_mnist", settings=settings, axes={"kappa": [0.1, 0.2]})
    sealed = tmp_path / "sealed"
    shutil.copytree(own_data, sealed, ignore=shutil.ignore_patterns("t10k-*"))
    assert list(own_data.rglob("t10k-*"))
    assert not list(sealed.rglob("t10k-*"))
    with_test = tune(tmp_path, "--root", "with", "--data", str(own_data))
    without = tune(tmp_path, "--root", "without", "--data", str(sealed))
    assert len(scores(tmp_path / "with")) == 2
    assert scores(tmp_path / "with") == scores(tmp_path / "without")
    assert with_test["selected"] == without["selected"]


def test_a_log_has_no_control_characters_and_few_lines(tmp_path: Path) -> None:
    folder = write_space(tmp_path, axes={"kappa": [0.1, 0.2]})
    started = time.monotonic()
    done = call("co2l.tune", "--space", "small.yaml", "--max-concurrent", "1", cwd=folder)
    spent = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert not [c for c in done.stdout + done.stderr if ord(c) < 32 and c != "\n"]
    assert len(done.stderr.splitlines()) <= 1 + spent / 5
    assert "selected configurations: " in done.stdout
    assert re.search(r"^browse: .*mlflow ui --backend-store-uri sqlite:///runs/mlflow.db", done.stdout, re.MULTILINE)
    assert re.search(
        r"^  then: http://127.0.0.1:\d+/#/experiments/1/runs\?viewStateShareKey=co2l-\w+", done.stdout, re.MULTILINE
    )


def test_a_changed_space_under_the_same_name_is_refused(tmp_path: Path, undisturbed: Undisturbed) -> None:
    folder = write_space(tmp_path, axes={**SPACE["axes"], "kappa": [0.1, 0.3]})
    line = refusal(folder, "--root", str(undisturbed.root))
    assert "axes.kappa: [0.1, 0.2] → [0.1, 0.3]" in line
    assert "--fresh" in line


def refusal(folder: Path, *arguments: str) -> str:
    """The one line that is said, in bounded time."""
    done = call("co2l.tune", "--space", "small.yaml", *arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    return line


def test_more_than_any_node_has(folder: Path) -> None:
    line = refusal(folder, "--gpus-per-trial", "8")
    assert "8 GPUs, and no node has that" in line
    assert "--gpus-per-trial" in line


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--address", "127.0.0.1:{port}", "Ray cannot be reached"),
        ("--address", "ray://127.0.0.1:{port}", "Ray cannot be reached"),
        ("--tracking-uri", "http://127.0.0.1:{port}", "the tracking server cannot be reached"),
        ("--storage", "postgresql://me:secret@127.0.0.1:{port}/studies", "the storage cannot be used"),
    ],
)
def test_where_nobody_answers(flag: str, value: str, said: str, folder: Path) -> None:
    with socket.socket() as found:  # a port that is free, so that nobody listens there
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    line = refusal(folder, flag, value.format(port=port))
    assert f"127.0.0.1:{port}" in line
    assert said in line


@pytest.mark.parametrize("name", ["study.db", "mlflow.db"])
def test_a_locked_database(name: str, folder: Path) -> None:
    with sqlite3.connect(folder / "runs" / name) as lock:
        lock.execute("create table something (number)")
        lock.commit()
        lock.execute("begin exclusive")
        line = refusal(folder)
    assert name in line
    assert "database is locked" in line
