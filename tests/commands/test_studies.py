"""The days after a search: its studies listed, shown, exported and renamed, in the record, MLflow and files alike."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from commands import call_here, refusal_of
from spaces import finish, space_of

from co2l.search.record.entries import Cost
from co2l.search.record.lease import driving
from co2l.search.record.study import StudyRecord
from co2l.search.space.evaluation import of_space
from co2l.search.tracking import Tracker
from co2l.urls import sqlite_url


def fill(root: Path) -> None:
    """A search with one trial left, and an evaluation; scores 80, 81, … in the order of the grid."""
    root.mkdir(parents=True, exist_ok=True)
    space = space_of({"eta": [0.01, 0.02], "buffer_size": [50, "unlimited"]})
    record = StudyRecord.open(sqlite_url(root / "study.db"), "mine", space)
    for i, trial in enumerate(list(space.trials())[:3]):
        finish(record, trial, 80.0 + i, Cost(60, 20, 1800.0))
    tested = of_space(space_of({"eta": [0.02]}), 2)
    record = StudyRecord.open(sqlite_url(root / "study.db"), "mine.test", tested)
    for i, trial in enumerate(tested.trials()):
        finish(record, trial, 70.0 + i)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "runs")
    return tmp_path


def typed(folder: Path, *words: str) -> str:
    done = call_here("co2l.__main__", *words, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_study_is_a_row(folder: Path) -> None:
    rows = {row["name"]: row for row in json.loads(typed(folder, "studies", "--json"))}
    assert list(rows) == ["mine", "mine.test"]
    search = rows["mine"]
    assert (search["kind"], search["space"]) == ("search", "co2l on seq_digits, grid")
    assert (search["trials"], search["statuses"], search["driver"]) == (4, {"done": 3}, None)
    assert search["best"] == "82.00 (eta=0.02 buffer_size=50)"
    assert search["cost"] == {"epochs_trained": 180, "epochs_reused": 60, "trial_hours": 1.5}
    assert rows["mine.test"]["best"] == "70.50 ± 0.71 (2 seeds)"  # 1 / √2
    lines = typed(folder, "studies").splitlines()
    assert lines[2].split()[:2] == ["mine", "search"]
    assert "3/4 done" in lines[2]
    assert "180 epochs, 1.50 h" in lines[2]


def test_a_study_that_is_being_driven_says_so(folder: Path) -> None:
    with driving(sqlite_url(folder / "runs" / "study.db"), "mine"):
        rows = {row["name"]: row for row in json.loads(typed(folder, "studies", "--json"))}
        assert rows["mine"]["driver"].startswith(f"process {os.getpid()} on ")
        assert rows["mine.test"]["driver"] is None
        (line,) = [line for line in typed(folder, "studies").splitlines() if line.startswith("mine ")]
        assert "runs now" in line
        done = call_here("co2l.__main__", "rename", "mine", "other", cwd=folder)
        assert "another search drives this study" in refusal_of(done)


def test_looking_does_not_stop_a_search_from_starting(folder: Path) -> None:
    typed(folder, "studies")
    with driving(sqlite_url(folder / "runs" / "study.db"), "mine"):
        pass


def test_one_study_and_one_trial(folder: Path) -> None:
    shown = typed(folder, "show", "mine")
    assert "progress  3/4 done" in shown
    assert [line.split()[:2] for line in shown.splitlines()[-1:]] == [["0.02", "50"]]
    rows = typed(folder, "show", "mine", "--trials").splitlines()[2:]
    assert len(rows) == 3
    key = rows[1].split()[0]
    trial = json.loads(typed(folder, "show", "mine", "--trial", key, "--json"))
    assert trial["values"] == {"eta": 0.01, "buffer_size": "unlimited"}
    assert (trial["score"], trial["accuracies"]) == (81.0, {"class_il": 80.0, "task_il": 82.0})
    assert trial["settings"]["E_0"] == 20
    assert "eta=0.01 buffer_size=unlimited seed=0, done, Class-IL 80.00" in typed(
        folder, "show", "mine", "--trial", key
    )
    assert "0 trials are zzzz" in refusal_of(_show(folder, "zzzz"))
    assert "did you mean 'mine'" in refusal_of(call_here("co2l.__main__", "show", "mien", cwd=folder))


def _show(folder: Path, trial: str) -> Any:
    return call_here("co2l.__main__", "show", "mine", "--trial", trial, cwd=folder)


def test_exports_hold_every_trial(folder: Path) -> None:
    import pandas

    rows = list(csv.DictReader(io.StringIO(typed(folder, "export", "mine", "--csv", "-"))))
    assert [(row["eta"], row["buffer_size"], row["score"]) for row in rows] == [
        ("0.01", "50", "80.0"),
        ("0.01", "unlimited", "81.0"),
        ("0.02", "50", "82.0"),
    ]
    assert typed(folder, "export", "mine", "--csv", "a.csv") == "a.csv (3 trials)\n"
    assert list(csv.DictReader((folder / "a.csv").open())) == rows
    typed(folder, "export", "mine", "--parquet", "a.parquet")
    frame = pandas.read_parquet(folder / "a.parquet")
    assert frame["class_il"].tolist() == [79.0, 80.0, 81.0]
    assert frame["buffer_size"].tolist() == ["50", "unlimited", "50"]


@pytest.mark.parametrize("file", ["/", ".", "runs", "~nobody-here/x.csv"])
def test_a_folder_is_no_file_to_export_to(file: str, folder: Path) -> None:
    assert file.rstrip("/") in refusal_of(call_here("co2l.__main__", "export", "mine", "--csv", file, cwd=folder))


def test_a_renamed_study_is_the_same_everywhere(folder: Path) -> None:
    """Its evaluation too; and the next driver finds the runs in MLflow again instead of making new ones."""
    root = folder / "runs"
    uri = sqlite_url(root / "mlflow.db")
    space = space_of({"eta": [0.01, 0.02], "buffer_size": [50, "unlimited"]})
    first = next(space.trials())

    def tracked(name: str) -> None:
        tracker = Tracker.open(uri, name, space=space, spool=root / "spool")
        tracker.begin(first)
        tracker.end(first.key, "pending")
        assert tracker.close(60) == 0

    tracked("mine")
    for path in (root / "selected" / "mine.yaml", root / "logs" / "mine" / "a.log"):
        path.parent.mkdir(parents=True)
        path.write_text("something")
    before = json.loads(typed(folder, "show", "mine", "--json"))
    assert typed(folder, "rename", "mine", "yours") == "renamed: yours\nrenamed: yours.test\n"
    after = json.loads(typed(folder, "show", "yours", "--json"))
    assert after == {**before, "name": "yours"}
    assert [row["name"] for row in json.loads(typed(folder, "studies", "--json"))] == ["yours", "yours.test"]
    assert (root / "selected" / "yours.yaml").is_file()
    assert (root / "logs" / "yours" / "a.log").is_file()
    tracked("yours")
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    runs = [run for each in client.search_experiments() for run in client.search_runs([each.experiment_id])]
    assert sorted(run.data.tags["co2l.kind"] for run in runs) == ["study", "trial"]
    assert {run.data.tags["co2l.study"] for run in runs} == {"yours"}
    assert "yours" in {run.info.run_name for run in runs}


def test_a_name_that_is_taken_or_wrong_is_refused(folder: Path) -> None:
    for words, said in (
        (("mine.test", "mine"), "there is a study 'mine' already; give another name"),
        (("mien", "yours"), "unknown study 'mien'; did you mean 'mine'?"),
        (("mine", "a b"), "'a b' is no name"),
    ):
        assert said in refusal_of(call_here("co2l.__main__", "rename", *words, cwd=folder))
    assert not (folder / "runs" / "mlflow.db").exists()


@pytest.mark.parametrize("words", [["studies"], ["show", "a"], ["export", "a", "--csv", "-"], ["rename", "a", "b"]])
def test_a_root_without_studies_is_one_line(words: list[str], tmp_path: Path) -> None:
    refused = refusal_of(call_here("co2l.__main__", *words, cwd=tmp_path))
    assert "there are no studies; search first with co2l.tune" in refused
    assert list(tmp_path.iterdir()) == []
