"""Deleting at the command line: asked first, refused where something is at stake, and dry by default."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from commands import call_here, refusal_of
from spaces import finish, space_of

from co2l.search.record.study import StudyRecord
from co2l.search.tracking import Tracker
from co2l.urls import sqlite_url

SPACE = space_of({"eta": [0.01, 0.02]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with two trials; its store has two files of theirs, and one of nobody."""
    root = tmp_path / "runs"
    root.mkdir()
    record = StudyRecord.open(sqlite_url(root / "study.db"), "mine", SPACE)
    for trial in SPACE.trials():
        finish(record, trial)
        store_file(root, trial.config.stage_key(0))
    store_file(root, "0123" * 8)
    for path in (root / "selected" / "mine.yaml", root / "logs" / "mine" / "a.log"):
        path.parent.mkdir(parents=True)
        path.write_text("something")
    return tmp_path


def store_file(root: Path, key: str) -> None:
    path = root / "store" / ("ab" * 8) / f"{key}.state"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 1500)
    os.utime(path, (1e9, 1e9))


def stored(folder: Path) -> list[str]:
    return sorted(path.stem for path in (folder / "runs" / "store").rglob("*.state"))


def typed(folder: Path, *words: str) -> str:
    done = call_here("co2l.__main__", *words, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_gc_only_looks_unless_it_is_told_to_delete(folder: Path) -> None:
    before = stored(folder)
    out = typed(folder, "gc")
    assert "needed by: 1 studies in sqlite:///" in out
    assert next(line.split() for line in out.splitlines() if line.startswith("states")) == [
        *("states", "2", "3.0", "kB", "1", "1.5", "kB")
    ]
    assert out.endswith("deleting what is unreachable frees 1.5 kB: co2l gc --delete\n")
    assert stored(folder) == before
    assert typed(folder, "gc", "--delete").endswith("deleted: 1 files, 1.5 kB\n")
    assert stored(folder) == sorted(set(before) - {"0123" * 8})
    assert typed(folder, "gc", "--delete").endswith("nothing to delete\n")


def test_rm_takes_what_is_only_its_own(folder: Path) -> None:
    removed = json.loads(typed(folder, "rm", "mine", "--yes", "--json"))
    assert removed == [
        {"study": "mine", "trials": 2, "runs": 0, "models": [], "states": 2, "bytes": 3000, "kept": ""},
    ]
    assert stored(folder) == ["0123" * 8]  # which was never its own
    assert not list((folder / "runs" / "selected").iterdir()) + list((folder / "runs" / "logs").iterdir())
    assert "there are no studies" in refusal_of(call_here("co2l.__main__", "rm", "mine", "--yes", cwd=folder))


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_rm_asks_in_a_terminal(answer: str, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    done = call_here("co2l.__main__", "rm", "mine", cwd=folder)
    assert (done.returncode, asked) == (code, ["delete this for good? [y/N] "])
    assert "mine: 2 trials, 0 runs in MLflow, 2 files in the store (3.0 kB)" in done.stdout
    assert (len(stored(folder)) == 1) == (code == 0)


def test_rm_without_anyone_to_ask_needs_yes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    refused = refusal_of(call_here("co2l.__main__", "rm", "mine", cwd=folder))
    assert "nobody can be asked here; add --yes" in refused
    assert "did you mean 'mine'" in refusal_of(call_here("co2l.__main__", "rm", "mien", "--yes", cwd=folder))
    assert len(stored(folder)) == 3


def test_rm_deletes_nothing_if_the_store_cannot_be_opened(folder: Path) -> None:
    """The study was gone before that was noticed."""
    done = call_here("co2l.__main__", "rm", "mine", "--yes", "--store", "foo://x", cwd=folder)
    assert "foo://x: cannot open this store" in refusal_of(done)
    assert "2 trials" in typed(folder, "rm", "mine", "--yes")


def test_rm_deletes_runs_and_artifacts_but_no_registered_model_unasked(folder: Path) -> None:
    root, trial = folder / "runs", next(SPACE.trials())
    uri = sqlite_url(root / "mlflow.db")
    for study in ("mine", "other"):
        tracker = Tracker.open(uri, study, space=SPACE, spool=root / "spool")
        tracker.begin(trial)
        tracker.end(trial.key, "pending")
        assert tracker.close(60) == 0
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    client = MlflowClient(uri)
    (experiment,) = [each.experiment_id for each in client.search_experiments(filter_string="name = 'co2l/seq_digits'")]

    def runs(view: int = ViewType.ALL) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for run in client.search_runs([experiment], run_view_type=view):
            found.setdefault(run.data.tags["co2l.study"], set()).add(run.info.run_id)
        return found

    (run, *_) = runs()["mine"]
    client.log_text(run, "weights", "model/weights.txt")
    client.create_registered_model("digits")
    version = client.create_model_version("digits", f"{client.get_run(run).info.artifact_uri}/model", run)
    client.set_registered_model_alias("digits", "selected", version.version)
    refused = refusal_of(call_here("co2l.__main__", "rm", "mine", "--yes", cwd=folder))
    assert "its runs hold the registered model digits version 1 @selected; add --models to delete it too" in refused
    assert set(runs()) == {"mine", "other"}
    (removed,) = json.loads(typed(folder, "rm", "mine", "--yes", "--models", "--json"))
    assert (removed["runs"], removed["models"]) == (2, ["digits version 1 @selected"])
    assert list(runs()) == ["other"]  # not even among deleted runs
    assert not list((root / "artifacts").rglob("weights.txt"))
    assert not client.search_registered_models()
