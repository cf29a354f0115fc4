"""python -m co2l.tune, with a real Ray and a real MLflow store: once, again, without reuse, and too much asked for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
from commands import call_here, environment
from mlflow import MlflowClient
from searches import (
    NAIVE,
    PLANNED,
    SPACE,
    TRIALS,
    Undisturbed,
    check_complete,
    refusal,
    runs,
    scores,
    selected_in,
    tune_here,
    write_space,
)


def test_a_search_its_answer_and_its_second_time(undisturbed: Undisturbed) -> None:
    first, found = undisturbed.outcome, undisturbed.scores
    assert (first["epochs_trained"], first["epochs_reused"]) == (PLANNED, NAIVE - PLANNED)
    assert len(found) == TRIALS
    assert len({result["weights"] for result in found.values()}) == TRIALS

    check_complete(undisturbed.root)
    (parent,), children = runs(f"sqlite:///{undisturbed.root}/mlflow.db")
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    best = {}  # by buffer size
    for run in children:
        trial, size = run.data.tags["co2l.trial"], run.data.params["buffer_size"]
        assert run.data.metrics["val/score"] == round(found[trial]["score"], 2)
        best[size] = max(best.get(size, (0.0, "")), (found[trial]["score"], trial))
    assert {(each["score"], *each["trials"]) for each in first["selected"]} == set(best.values())
    selected = {run.data.tags["co2l.trial"] for run in children if run.data.tags.get("co2l.selected") == "★"}
    assert selected == {trial for _, trial in best.values()}
    assert [each["settings"]["buffer_size"] for each in selected_in(undisturbed.root)] == SPACE["axes"]["buffer_size"]

    assert tune_here(undisturbed.folder) == first
    assert scores(undisturbed.root) == found
    check_complete(undisturbed.root)


def test_a_log_has_no_control_characters_and_says_where_to_look(undisturbed: Undisturbed) -> None:
    out, log = undisturbed.printed
    assert not [c for c in out + log if ord(c) < 32 and c != "\n"]
    lines = log.splitlines()
    about = f"co2l on seq_digits, grid, {TRIALS} trials: "
    assert [line.removeprefix(about) for line in lines if line.startswith(about)] == [
        "starting Ray",
        "writing the result",
    ]
    assert lines[0] == "co2l on seq_digits: loading Ray and MLflow"
    known = rf"{about}|warning: 144 validation |\d/{TRIALS} trials done · "
    assert all(re.match(known, line) for line in lines[1:]), log
    assert "selected configurations: runs/selected/small.yaml" in out
    assert f"epochs trained: {PLANNED}, {NAIVE - PLANNED} of {NAIVE} reused" in out
    assert re.search(r"^browse: .*mlflow ui --backend-store-uri sqlite:///runs/mlflow.db", out, re.MULTILINE)
    assert re.search(
        r"^  then: http://127.0.0.1:\d+/#/experiments/1/runs\?viewStateShareKey=co2l-\w+", out, re.MULTILINE
    )


def test_without_reuse_every_score_is_the_same(folder: Path, undisturbed: Undisturbed, shared_ray: None) -> None:
    alone = tune_here(folder, "--no-reuse")
    assert scores(folder / "runs") == undisturbed.scores
    assert alone["selected"] == undisturbed.outcome["selected"]
    assert (undisturbed.outcome["epochs_trained"], alone["epochs_trained"]) == (PLANNED, NAIVE)
    _, children = runs(f"sqlite:///{folder}/runs/mlflow.db")
    spans = [(run.info.start_time, run.info.end_time) for run in children]
    most = max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
    assert most <= 2  # Tune holds one more ready than Ray has cores, which neither runs nor costs
    hours = sum(end - begin for begin, end in spans) / 3.6e6
    assert abs(alone["trial_hours"] - hours) < 0.01 * hours


def test_a_search_that_grows_runs_only_what_is_new(folder: Path, undisturbed: Undisturbed, shared_ray: None) -> None:
    axes = {"eta": [0.01], "kappa": [0.1], "buffer_size": [20]}
    write_space(folder, axes=axes)
    before = tune_here(folder)
    assert before["epochs_trained"] == 5 + 4 * 4
    write_space(folder, axes={**axes, "eta": [0.005, 0.01]})
    after = tune_here(folder)
    assert after["epochs_trained"] == 2 * before["epochs_trained"]
    found = scores(folder / "runs")
    assert found == {key: undisturbed.scores[key] for key in found}  # to the last bit
    write_space(folder, axes={**axes, "eta": [0.005, 0.01]}, seeds=[0, 1])
    assert tune_here(folder)["trials_left"] == 0
    assert {key: result for key, result in scores(folder / "runs").items() if key in found} == found
    check_complete(folder / "runs", trials=4)
    (parent,), _ = runs(f"sqlite:///{folder}/runs/mlflow.db")
    assert (parent.data.params["eta"], parent.data.tags["grown.eta"]) == ("0.01", "0.005, 0.01")
    write_space(folder, axes=axes)
    assert "use --study NEW, which reuses stored stages" in refusal(folder)


def test_two_methods_in_one_space_to_their_test_accuracy(folder: Path, shared_ray: None) -> None:
    write_space(
        folder,
        settings={"epochs": 2},
        axes={"method": ["er", "derpp"], "buffer_size": [20, 40]},
        methods={"derpp": {"alpha": 0.2}},
        selection={"per": ["method"]},
    )
    outcome = tune_here(folder)
    assert [(each["method"], each["settings"].get("alpha")) for each in outcome["selected"]] == [
        ("er", None),
        ("derpp", 0.2),
    ]
    check_complete(folder / "runs", trials=4)
    _, children = runs(f"sqlite:///{folder}/runs/mlflow.db")
    assert sorted(run.data.params["method"] for run in children) == ["derpp", "derpp", "er", "er"]
    tested = call_here("co2l.evaluate", "--study", "small", "--seeds", "1", "--json", cwd=folder)
    assert tested.returncode == 0, tested.stderr
    rows = json.loads(tested.stdout)["tested"]
    assert [row["values"]["variant"] for row in rows] == ["method=er", "method=derpp"]
    assert all(row["accuracies"]["task_il"][0] > 50 for row in rows)


def test_more_than_any_node_has(folder: Path, shared_ray: None) -> None:
    line = refusal(folder, "--cpus-per-trial", "800")
    assert "a trial needs 800 CPUs and 0 GPUs, and no node has that" in line
    assert "--cpus-per-trial" in line


def test_a_moved_root_continues_and_a_missing_database_is_filled_again(
    folder: Path, shared_ray: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = {"E_0": 1, "E_t": 1, "probe_epochs": 1}
    write_space(
        folder, settings=settings, axes={"eta": [0.005, 0.01, 0.02]}, algorithm="random", samples=1, selection={}
    )
    tune_here(folder)
    moved, copied = folder / "elsewhere" / "my runs", folder / "copied"
    moved.parent.mkdir()
    (folder / "runs").rename(moved)
    for root in (moved, copied):
        if root is copied:
            shutil.copytree(moved, copied, ignore=shutil.ignore_patterns("mlflow.db", "artifacts"))
        remembered = "mlflow.tracking._tracking_service.utils._artifact_repos_cache"
        monkeypatch.setattr(remembered, OrderedDict())  # by a process; the next driver is another
        outcome = tune_here(folder, "--root", str(root), "--samples", "2")
        assert outcome["trials_left"] == 0
        assert not (folder / "runs").exists()
        found, client = scores(root), MlflowClient(f"sqlite:///{root}/mlflow.db")
        (parent,), children = runs(client.tracking_uri)
        assert parent.info.status == "FINISHED"
        assert sorted(run.data.tags["co2l.trial"] for run in children) == sorted(found)
        assert len(children) == 2
        for run in children:
            result, file = found[run.data.tags["co2l.trial"]], "accuracy_matrix.json"
            assert (run.info.status, run.data.metrics["val/score"]) == ("FINISHED", round(result["score"], 2))
            assert (
                json.loads(Path(client.download_artifacts(run.info.run_id, file, str(tmp_path))).read_text()) == result
            )
        assert Path(client.download_artifacts(parent.info.run_id, "selected.yaml", str(tmp_path))).read_text()


def test_the_smallest_search_causes_no_warning(folder: Path) -> None:
    """Deprecated names of Ray, Optuna or MLflow would be gone with their next version."""
    settings = {"E_0": 1, "E_t": 1, "probe_epochs": 1}
    write_space(folder, settings=settings, axes={"eta": [0.01]}, selection={})
    strict = ["-W", "error", "-W", "ignore:::mlflow.store.tracking.sqlalchemy_store"]  # which warns of MLflow itself
    command = [sys.executable, *strict, "-m", "co2l.tune", "--space", "small.yaml", "--json"]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trials_left"] == 0
    assert "arning" not in done.stderr
    check_complete(folder / "runs", trials=1)
