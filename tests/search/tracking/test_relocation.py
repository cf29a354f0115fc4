"""A root is self-contained: moved or copied, its artifacts are found, and nothing is written to where it was."""

from __future__ import annotations

import json
import shutil
import urllib.parse
from collections import OrderedDict
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow_server import file_uri
from tracked_runs import RESULT, content, done, epoch, points, runs

from co2l.search.record.entries import Cost
from co2l.search.space.space import parse
from co2l.search.tracking import Tracker, log_report

SPACE = parse({"benchmark": "seq_digits", "axes": {"eta": [0.1, 0.5]}}, "test")
FIRST, SECOND = SPACE.trials()


def opened(root: Path) -> Tracker:
    return Tracker.open(f"sqlite:///{root}/mlflow.db", "s", space=SPACE, spool=root / "spool")


@pytest.mark.parametrize("copied", [False, True])
def test_a_root_that_was_moved(tmp_path: Path, copied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = tmp_path / "before" / "runs", tmp_path / "other folder" / "100% runs"
    before.mkdir(parents=True)
    file_uri(before)
    tracker = opened(before)
    tracker.begin(FIRST)
    tracker.end(FIRST.key, "done", done(4))
    tracker.close_study(selected=[], table=[], entries=[], shares={}, cost=Cost(), complete=False)
    assert tracker.close(60) == 0
    log_report(f"sqlite:///{before}/mlflow.db", "r", studies=["s"], files={"report.html": b"<p>"})
    after.parent.mkdir()
    shutil.copytree(before, after) if copied else shutil.move(before, after)
    there = {path: path.stat().st_mtime_ns for path in before.rglob("*")}

    remembered = "mlflow.tracking._tracking_service.utils._artifact_repos_cache"
    monkeypatch.setattr(remembered, OrderedDict())  # by a process; the next driver is another
    tracker = opened(after)
    tracker.begin(SECOND)
    tracker.end(SECOND.key, "done", done(4))
    tracker.close_study(selected=[], table=[], entries=[], shares={}, cost=Cost())
    assert tracker.close(60) == 0
    assert {path: path.stat().st_mtime_ns for path in before.rglob("*")} == there
    uri = f"sqlite:///{after}/mlflow.db"
    (parent,), children = runs(uri, "s")
    assert len(children) == 2
    client = MlflowClient(uri)
    report = client.search_runs([client.get_experiment_by_name("co2l/reports").experiment_id])[0]
    assert content(uri, report, "report.html", tmp_path) == b"<p>"
    assert content(uri, parent, "space.yaml", tmp_path)
    for run in children:
        assert json.loads(content(uri, run, "accuracy_matrix.json", tmp_path)) == RESULT
        folder = Path(urllib.parse.unquote(urllib.parse.urlsplit(run.info.artifact_uri).path))
        assert folder.is_relative_to(after / "artifacts")


def test_what_was_left_to_send_moves_with_the_root(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    file_uri(before)
    tracker = opened(before)
    tracker._outbox._given_up.set()  # from here on nothing arrives, as if the server were away
    tracker.begin(FIRST)
    tracker.report(FIRST.key, epoch(1))
    assert tracker.close(0.1) > 0
    before.rename(after)
    tracker = opened(after)
    assert tracker.close(60) == 0
    (run,) = runs(f"sqlite:///{after}/mlflow.db", "s")[1]
    assert points(f"sqlite:///{after}/mlflow.db", run, "loss/supcon") == [(1, 0.125)]
    assert len(list((after / "spool").iterdir())) == 1
