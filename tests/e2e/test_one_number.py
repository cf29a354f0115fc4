"""One number: what MLflow, the report, the command, its JSON, the API and the files say of one search."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from searches import SPACE, Undisturbed, runs, selected_in

import co2l
from co2l.reporting.document import Report, Table
from co2l.reporting.gather import read, report
from co2l.search.record.reader import StudyReader

SIZES: list[int] = SPACE["axes"]["buffer_size"]
SCENARIOS = {"class_il": "Class-IL", "task_il": "Task-IL"}


@pytest.fixture(scope="module")
def reported(undisturbed: Undisturbed) -> Report:
    reader = StudyReader(f"sqlite:///{undisturbed.root}/study.db")
    return report(read(reader, ["small"], root="runs", store=""), title="t", about="")


@pytest.fixture(scope="module")
def tracked(undisturbed: Undisturbed) -> tuple[Any, list[Any]]:
    (parent,), children = runs(f"sqlite:///{undisturbed.root}/mlflow.db")
    return parent, children


def artifact(undisturbed: Undisturbed, run: Any, name: str, folder: Path) -> str:
    client = MlflowClient(f"sqlite:///{undisturbed.root}/mlflow.db")
    return Path(client.download_artifacts(run.info.run_id, name, str(folder))).read_text()


def test_what_was_selected(
    undisturbed: Undisturbed, tracked: tuple[Any, list[Any]], reported: Report, tmp_path: Path
) -> None:
    parent, children = tracked
    chosen = undisturbed.outcome["selected"]  # the JSON, which has every digit
    assert chosen == co2l.load_study(undisturbed.root, "small").best()
    assert chosen == selected_in(undisturbed.root)
    assert chosen == yaml.safe_load(artifact(undisturbed, parent, "selected.yaml", tmp_path))
    told, note = undisturbed.printed[0], parent.data.tags["mlflow.note.content"]
    scores = [row for block in reported.walk() for row in table_rows(block) if row[0] == "validation score (%)"]
    for i, (size, each) in enumerate(zip(SIZES, chosen, strict=True)):
        (trial,) = each["trials"]
        result = undisturbed.scores[trial]
        exact = {**result["average"], "score": result["score"]}
        assert {**each["accuracies"], "score": each["score"]} == exact
        (child,) = [run for run in children if run.data.tags["co2l.trial"] == trial]
        for name, value in exact.items():
            assert child.data.metrics[f"val/{name}"] == round(value, 2)
            assert parent.data.metrics[f"buffer_size_{size}/val/{name}"] == round(value, 2)
        rounded = [f"{exact[name]:.2f}" for name in (*SCENARIOS, "score")]
        lead = f"+{each['margin']['lead']:.2f}"
        assert re.search(rf"^ *\S+ +\S+ +{size} +{' +'.join(map(re.escape, [*rounded, lead]))} +1$", told, re.MULTILINE)
        assert f" | {' | '.join([*rounded, lead])} |" in note
        assert scores[0][2 + 2 * i] == rounded[-1]
        assert child.info.run_name.startswith("★ ")
    starred = [run.data.tags["co2l.trial"] for run in children if run.info.run_name.startswith("★")]
    assert sorted(starred) == sorted(each["trials"][0] for each in chosen)


def table_rows(block: object) -> list[list[str]]:
    return [[item.text for item in row] for row in block.rows] if isinstance(block, Table) else []


def test_how_much_each_axis_matters(undisturbed: Undisturbed, tracked: tuple[Any, list[Any]], reported: Report) -> None:
    shares = undisturbed.outcome["importance"]
    assert list(shares) == list(co2l.load_study(undisturbed.root, "small").importance())
    assert shares == co2l.load_study(undisturbed.root, "small").importance()
    assert shares.keys() == {"eta", "kappa"}, "the buffer size is given, not chosen"
    metrics = tracked[0].data.metrics
    assert {name: metrics[f"importance/{name}"] for name in shares} == {
        name: float(f"{share:.4g}") for name, share in shares.items()
    }
    shown = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    label = "share of the variance of val/score (fANOVA, for each buffer_size)"
    assert f"what mattered: {shown}: {label}" in undisturbed.printed[0]
    (figure,) = [each for each in reported.figures() if each.name == "importance-small"]
    assert figure.alternative == shown
    assert label in figure.caption
    assert figure.drawing.axes[0].get_xlabel() == label
    drawn = co2l.load_study(undisturbed.root, "small").figure("importance").axes[0]
    assert [text.get_text() for text in drawn.texts] == [f"{share:.2f}" for share in reversed(shares.values())]


def test_every_trial_by_both_probes(undisturbed: Undisturbed, tracked: tuple[Any, list[Any]], tmp_path: Path) -> None:
    parent, children = tracked
    rows = {
        row["trial"]: row for row in csv.DictReader(io.StringIO(artifact(undisturbed, parent, "trials.csv", tmp_path)))
    }
    frame = co2l.load_study(undisturbed.root, "small").frame()
    for run in children:
        result = undisturbed.scores[run.data.tags["co2l.trial"]]
        row = rows[run.data.tags["co2l.trial"]]
        assert result["probes"] == {"final": "paper", "matrix": "fast"}
        values = {name: run.data.params[name] for name in SPACE["axes"]}
        (ours,) = [each for _, each in frame.iterrows() if {n: str(each[n]) for n in values} == values]
        for name in SCENARIOS:
            exact, by_fast = result["average"][name], result["matrix"][name][-1]
            assert float(row[name]) == ours[name] == exact
            assert run.data.metrics[f"val/{name}"] == round(exact, 2)
            assert run.data.metrics[f"val_fast/{name}"] == round(sum(by_fast) / len(by_fast), 2)
            assert run.data.metrics[f"val_fast/forgetting_{name}"] == round(result["forgetting"][name], 2)


def test_a_curve_has_the_points_of_one_probe(undisturbed: Undisturbed, tracked: tuple[Any, list[Any]]) -> None:
    client = MlflowClient(f"sqlite:///{undisturbed.root}/mlflow.db")
    run = tracked[1][0]
    matrix = undisturbed.scores[run.data.tags["co2l.trial"]]["matrix"]["class_il"]
    course = client.get_metric_history(run.info.run_id, "val_fast/class_il")
    assert [point.value for point in course] == [round(sum(row) / len(row), 2) for row in matrix]
    assert len(client.get_metric_history(run.info.run_id, "val/class_il")) == 1


def test_the_cost(undisturbed: Undisturbed, tracked: tuple[Any, list[Any]], reported: Report) -> None:
    trained, reused = undisturbed.outcome["epochs_trained"], undisturbed.outcome["epochs_reused"]
    metrics = tracked[0].data.metrics
    assert (metrics["cost/epochs_trained"], metrics["cost/epochs_reused"]) == (trained, reused)
    assert f"epochs trained: {trained}, {reused} of {trained + reused} reused" in undisturbed.printed[0]
    frame = co2l.load_study(undisturbed.root, "small").frame()
    assert (frame["epochs_trained"].sum(), frame["epochs_reused"].sum()) == (trained, reused)
    (row,) = [
        row
        for block in reported.walk()
        for row in table_rows(block)
        if row[:2] == ["`small`", "search"] and row[3] == str(trained)
    ]
    assert row[4] == str(reused)
