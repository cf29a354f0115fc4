"""Tracking against a SQLite file and against a real server over HTTP, also one that is away for a while."""

from __future__ import annotations

import csv
import io
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from mlflow_server import Server, file_uri, wait_for
from tracked_runs import PNG, RESULT, content, done, epoch, points, runs

import co2l
from co2l.errors import Co2lError
from co2l.search.record.earlier import Earlier
from co2l.search.record.entries import Cost, Entry
from co2l.search.running.reports import Report
from co2l.search.selection.rule import Selected
from co2l.search.selection.seeds import SeedSummary
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.space import Space, parse
from co2l.search.space.trial import Trial
from co2l.search.tracking import Tracker, connection, outbox, pages
from co2l.search.tracking import runs as mlflow_runs
from co2l.search.tracking.figures import accuracy_matrix, png


@pytest.fixture(scope="module")
def space() -> Space:
    axes = {"eta": [0.1, 0.5], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}
    return parse({"benchmark": "seq_digits", "axes": axes}, "test")


@pytest.fixture(scope="module")
def trials(space: Space) -> list[Trial]:
    return list(space.trials())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["sqlite", pytest.param("http", marks=pytest.mark.e2e)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "http":
        server: Server = request.getfixturevalue("running")
        return server.uri
    return file_uri(tmp_path)


@pytest.fixture
def opened(tmp_path: Path, space: Space, request: pytest.FixtureRequest) -> Callable[..., Tracker]:
    """Opens a tracker of a study named after the test."""

    def of(uri: str, study: str = request.node.name) -> Tracker:
        return Tracker.open(uri, study, space=space, spool=tmp_path / "spool")

    return of


def selected(trial: Trial, score: float = 80.0) -> Selected:
    """As `selection.select` chooses it for its buffer size."""
    settings = trial.config.settings.model_dump(mode="json")
    group, accuracies = {"buffer_size": trial.values["buffer_size"]}, {"class_il": 70.1234, "task_il": 90.0}
    return Selected(group, score, dict(trial.values), settings, (trial.key,), accuracies, "paper's probe")


def entries(trials: list[Trial]) -> list[Entry]:
    return [Entry(trial.key, trial.values, 0, "done", score=80.0 + i) for i, trial in enumerate(trials)]


def test_a_study_says_what_it_took_from_an_earlier_one(tmp_path: Path, space: Space) -> None:
    uri, earlier = file_uri(tmp_path), Earlier("before", ({"eta": 0.5, "kappa": 0.2},))
    for given in (earlier, earlier):  # the same command again
        tracker = Tracker.open(uri, "s", space=space, spool=tmp_path / "spool", earlier=given)
        assert tracker.close(60) == 0
    (parent,), _ = runs(uri, "s")
    told = {"co2l.from_study": "before", "co2l.begun_with": "1 point of 'before': eta=0.5 kappa=0.2"}
    assert parent.data.tags.items() >= told.items()


def test_a_search_from_begin_to_selection(
    uri: str, opened: Callable[..., Tracker], trials: list[Trial], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    study, (first, second, third, *_) = request.node.name, trials
    tracker = opened(uri)
    for trial in (first, second, third):
        tracker.begin(trial)
    tracker.report(first.key, epoch(1, pid=7.0))
    tracker.report(first.key, epoch(2, loss=float("inf")))
    tracker.report(first.key, Report("task", 0, 2, 2, {"val_fast/score": 99.12345}))
    tracker.report(first.key, epoch(3))
    tracker.end(first.key, "done", done(4))
    tracker.end(second.key, "failed", None, "the supcon loss became nan")
    tracker.end(third.key, "pruned", epoch(2))
    table = [{"trial": first.key, "score": 80.0}, {"trial": second.key, "reason": "a, b"}]
    ended = {"shares": {"eta": 0.75, "kappa": 0.2512345}, "entries": entries([first, second]), "table": table}
    tracker.close_study(selected=[selected(first)], cost=Cost(5, 2, 900.0), **ended)
    assert tracker.close(60) == 0

    (parent,), children = runs(uri, study)
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == study
    assert parent.data.metrics == {
        **{"cost/epochs_trained": 5, "cost/epochs_reused": 2, "cost/trial_hours": 0.25},
        **{"importance/eta": 0.75, "importance/kappa": 0.2512},
        **{"val/score": 80.0, "val/class_il": 70.12, "val/task_il": 90.0},
    }
    assert parent.data.params.items() >= {"eta": "0.1, 0.5", "tau": "0.1", "search.algorithm": "grid"}.items()
    versions = {"co2l.version": co2l.__version__, "co2l.torch": version("torch"), "co2l.ray": version("ray")}
    assert parent.data.tags.items() >= versions.items()
    (chosen,) = yaml.safe_load(content(uri, parent, "selected.yaml", tmp_path))
    assert (chosen["score"], chosen["group"], chosen["trials"]) == (80.0, {"buffer_size": 50}, [first.key])
    assert yaml.safe_load(content(uri, parent, "space.yaml", tmp_path))["axes"]["eta"] == [0.1, 0.5]
    rows = list(csv.DictReader(io.StringIO(content(uri, parent, "trials.csv", tmp_path).decode())))
    assert rows[1] == {"trial": second.key, "score": "", "reason": "a, b"}
    assert content(uri, parent, "figures/history.png", tmp_path).startswith(PNG)

    by_trial = {run.data.tags["co2l.trial"]: run for run in children}
    assert by_trial.keys() == {first.key, second.key, third.key}
    experiment, told = parent.info.experiment_id, parent.data.tags["mlflow.note.content"]
    address = f"#/experiments/{experiment}/runs/{by_trial[first.key].info.run_id}?workflowType=machine_learning"
    assert f"| [η=0.1 κ=0.1 M=50]({address}) | 70.12 | 90.00 | 80.00 | – |" in told.splitlines()
    assert f"[All trials by val/score]({tracker.page})" in told
    assert f"![history](get-artifact?path=figures/history.png&run_uuid={parent.info.run_id})" in told
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    run = by_trial[first.key]
    assert (run.info.status, run.info.run_name) == ("FINISHED", "★ η=0.1 κ=0.1 M=50")
    assert run.data.tags["co2l.selected"] == "★"
    assert (run.data.tags["co2l.epochs_trained"], run.data.tags["co2l.epochs_reused"]) == ("2", "2")
    settings = first.config.settings.model_dump()
    assert {name: run.data.params[name] for name in settings} == {name: str(v) for name, v in settings.items()}
    assert (run.data.params["seed"], run.data.params["benchmark"]) == ("0", "seq_digits")
    headline = {"val/class_il", "val/task_il", "val/score"}
    assert run.data.metrics.keys() == {"loss/supcon", "lr", "val_fast/score", *headline}
    assert points(uri, run, "loss/supcon") == [(1, 0.125), (3, 0.375)]
    assert points(uri, run, "val_fast/score") == [(2, 99.12)]
    assert points(uri, run, "val/score") == [(4, 80.0)]
    assert json.loads(content(uri, run, "accuracy_matrix.json", tmp_path)) == RESULT
    assert content(uri, run, "accuracy_matrix.png", tmp_path).startswith(PNG)
    failed, pruned = by_trial[second.key], by_trial[third.key]
    assert (failed.info.status, failed.data.tags["co2l.reason"]) == ("FAILED", "the supcon loss became nan")
    assert (pruned.info.status, pruned.data.tags["co2l.status"]) == ("KILLED", "pruned")
    assert "co2l.selected" not in failed.data.tags


def test_the_same_runs_are_found_again(
    uri: str, opened: Callable[..., Tracker], trials: list[Trial], request: pytest.FixtureRequest
) -> None:
    study, (first, second, third, *_) = request.node.name, trials
    nothing: dict[str, Any] = {"table": [], "entries": [], "shares": {}}
    tracker = opened(uri)
    for trial in (first, second, third):
        tracker.begin(trial)
    for step in (1, 2, 3):
        tracker.report(first.key, epoch(step))
    tracker.end(first.key, "failed", None, "lost its node")
    tracker.close_study(selected=[selected(first)], cost=Cost(3), **nothing)
    tracker.close(60)

    tracker = opened(uri)  # `second` and `third` are still running, as after the death of a driver
    tracker.reconcile({second.key: Entry(second.key, second.values, 0, "done", 80.0, RESULT)})
    tracker.begin(first)
    for step in (2, 3, 4):  # it goes on from its last state, which is older than its last report
        tracker.report(first.key, epoch(step))
    tracker.end(first.key, "done", done(4))
    tracker.end(first.key, "done", done(4))
    for _ in range(2):
        tracker.close_study(selected=[selected(second)], cost=Cost(4), **nothing)
    tracker.close(60)

    (parent,), children = runs(uri, study)
    by_trial = {run.data.tags["co2l.trial"]: run for run in children}
    assert len(children) == 3
    assert {key: run.info.status for key, run in by_trial.items()} == {
        first.key: "FINISHED",
        second.key: "FINISHED",
        third.key: "KILLED",
    }
    assert points(uri, by_trial[first.key], "loss/supcon") == [(1, 0.125), (2, 0.25), (3, 0.375), (4, 0.5)]
    assert by_trial[first.key].data.tags["co2l.reason"] == ""
    assert [key for key, run in by_trial.items() if "co2l.selected" in run.data.tags] == [second.key]
    assert [key for key, run in by_trial.items() if run.info.run_name.startswith("★")] == [second.key]
    assert points(uri, parent, "cost/epochs_trained") == [(0, 3), (1, 4)]


def test_a_search_that_was_stopped_is_not_left_running(
    opened: Callable[..., Tracker], trials: list[Trial], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri = file_uri(tmp_path)
    tracker = opened(uri)
    tracker.begin(trials[0])
    tracker.end(trials[0].key, "pending", None, "Ctrl-C")
    tracker.close(60)
    (parent,), (child,) = runs(uri, request.node.name)
    assert (parent.info.status, child.info.status) == ("KILLED", "KILLED")
    for complete, status in ((False, "KILLED"), (True, "FINISHED")):
        tracker = opened(uri)
        tracker.close_study(selected=[], table=[], entries=[], shares={}, cost=Cost(), complete=complete)
        tracker.close(60)
        assert runs(uri, request.node.name)[0][0].info.status == status


@pytest.mark.e2e
def test_a_server_that_is_away_delays_and_loses_nothing(
    opened: Callable[..., Tracker], trials: list[Trial], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server, few = Server(tmp_path), trials[:4]
    server.start()
    try:
        tracker = opened(server.uri)
        for trial in few[:2]:
            tracker.begin(trial)
        for step in range(1, 11):
            tracker.report(few[0].key, epoch(step))
        wait_for(lambda: len(runs(server.uri, request.node.name)[1]) > 0)
        server.kill()  # in the middle of it
        before = tracker.waiting
        for step in range(11, 21):
            tracker.report(few[0].key, epoch(step))
        for trial in few[2:]:
            tracker.begin(trial)
        for trial in few:
            tracker.report(trial.key, epoch(21))
            tracker.end(trial.key, "done", done(22))
        assert tracker.waiting == before + 20  # nobody waited for the server
        wait_for(lambda: tracker.trouble != "")
        server.start()
        wait_for(lambda: tracker.waiting == 0)
        assert tracker.trouble == ""

        server.kill()
        tracker.report(few[0].key, epoch(30))
        assert tracker.close(0.5) == 2  # the report, and that the search was stopped
        with pytest.raises(Co2lError, match="cannot be reached"):
            opened(server.uri)
        server.start()
        tracker = opened(server.uri)
        wait_for(lambda: tracker.waiting == 0)
        (parent,), children = runs(server.uri, request.node.name)
        assert parent.info.status == "RUNNING"
        assert tracker.close(60) == 0
        assert {run.data.tags["co2l.trial"] for run in children} == {trial.key for trial in few}
        assert len(children) == len(few)
        assert {run.info.status for run in children} == {"FINISHED"}
        for run in children:
            steps = [*range(1, 22), 30] if run.data.tags["co2l.trial"] == few[0].key else [21]
            assert points(server.uri, run, "loss/supcon") == [(step, step / 8) for step in steps]
            assert points(server.uri, run, "val/score") == [(22, 80.0)]
            assert content(server.uri, run, "accuracy_matrix.png", tmp_path).startswith(PNG)
    finally:
        server.kill()


def test_a_slow_server_is_waited_for_while_anything_arrives(tmp_path: Path) -> None:
    arrived: list[int] = []

    def slow(operation: dict[str, Any], again: bool) -> None:
        time.sleep(0.8)
        if operation["kind"] == "number" and not again:
            arrived.append(operation["number"])

    box = outbox.Outbox(tmp_path / "spool.jsonl", slow)
    for number in range(4):
        box.put({"kind": "number", "number": number})
    assert box.close(2.0) == 0  # all together take longer than that
    assert arrived == [0, 1, 2, 3]


class LosesReplies:
    """A client whose every call that changes something arrives, and the first of each kind and run then fails."""

    def __init__(self, client: MlflowClient, told: set[str]) -> None:
        self._client, self._told = client, told

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name.startswith(("get_", "search_")):
            return call

        def lossy(*args: Any, **kwargs: Any) -> Any:
            reply = call(*args, **kwargs)
            told = f"{name} {args[:1] if name == 'log_artifacts' else args} {kwargs.get('tags')}"
            if told not in self._told:
                self._told.add(told)
                raise ConnectionResetError("the reply was lost")
            return reply

        return lossy


def test_lost_replies_make_nothing_twice(
    opened: Callable[..., Tracker],
    trials: list[Trial],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    uri, few, told = file_uri(tmp_path), trials[:3], set[str]()
    plain = mlflow_runs.connect
    monkeypatch.setattr(mlflow_runs, "connect", lambda uri: LosesReplies(plain(uri), told))
    monkeypatch.setattr(outbox, "FIRST_PAUSE", 0.01)
    for attempt in range(2):
        tracker = opened(uri)
        for trial in few:
            tracker.begin(trial)
            tracker.report(trial.key, epoch(1))
            tracker.end(trial.key, "done", done(2))
        chosen = [selected(few[attempt])]
        tracker.close_study(selected=chosen, table=[], entries=[], shares={}, cost=Cost(6))
        assert tracker.close(60) == 0
    assert {call.split()[0] for call in told} >= {"create_experiment", "create_run", "log_batch", "delete_tag"}
    (parent,), children = runs(uri, request.node.name)
    assert sorted(run.data.tags["co2l.trial"] for run in children) == sorted(trial.key for trial in few)
    for run in children:
        assert points(uri, run, "loss/supcon") == [(1, 0.125)]
        assert points(uri, run, "val/score") == [(2, 80.0)]
    assert points(uri, parent, "cost/epochs_trained") == [(0, 6)]
    assert [r.data.tags["co2l.trial"] for r in children if "co2l.selected" in r.data.tags] == [few[1].key]


def test_a_refused_operation_does_not_hold_up_the_others(
    opened: Callable[..., Tracker],
    trials: list[Trial],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    uri = file_uri(tmp_path)
    monkeypatch.setattr(outbox, "FIRST_PAUSE", 0.01)
    tracker = opened(uri)
    tracker.report("never begun", epoch(1))
    tracker.begin(trials[0])
    assert tracker.close(60) == 0
    assert "not tracked: report" in caplog.text
    assert len(runs(uri, request.node.name)[1]) == 1


@pytest.mark.e2e
def test_what_a_killed_driver_told_arrives_later(
    opened: Callable[..., Tracker], trials: list[Trial], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Killed just before a new database with MLflow's tables takes its name, so that there is none yet."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    script = f"""
        import os, shutil, signal, threading, time
        from pathlib import Path
        from co2l.search.running.reports import Report
        from co2l.search.space.space import parse
        from co2l.search.tracking import Tracker
        told = threading.Event()
        shutil.copyfile = lambda new, _: told.wait() and print(new, flush=True) or os.kill(os.getpid(), signal.SIGKILL)
        axes = {{"eta": [0.1, 0.5], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}}
        space = parse({{"benchmark": "seq_digits", "axes": axes}}, "test")
        spool = Path({str(tmp_path / "spool")!r})
        tracker = Tracker.open({uri!r}, {request.node.name!r}, space=space, spool=spool)
        trial = next(space.trials())
        tracker.begin(trial)
        for step in (1, 2, 3):
            tracker.report(trial.key, Report("epoch", 0, 2, step, {{"lr": 0.5}}))
        told.set()
        time.sleep(120)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    killed = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    assert killed.returncode == -signal.SIGKILL
    assert (left := Path(killed.stdout.strip()).parent).is_dir()
    assert (tmp_path / "mlflow.db").read_bytes() == b""
    tracker = opened(uri)
    assert tracker.waiting == 6  # twice the study's start, the trial's, three reports
    assert tracker.close(120) == 0
    (_,), (child,) = runs(uri, request.node.name)
    assert child.data.tags["co2l.trial"] == trials[0].key
    assert points(uri, child, "lr") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db", "spool"}
    assert not left.exists()  # its temporary folder


def test_a_torn_line_in_the_spool_is_passed_over(
    opened: Callable[..., Tracker], trials: list[Trial], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri = file_uri(tmp_path)
    opened(uri).close(60)
    (spool,) = (tmp_path / "spool").glob("*.jsonl")
    assert spool.read_bytes() == b""
    spool.write_bytes(b'{"kind":"repo')
    tracker = opened(uri)
    tracker.begin(trials[0])
    assert tracker.close(60) == 0
    assert len(runs(uri, request.node.name)[1]) == 1


def test_two_searches_do_not_track_the_same_study(opened: Callable[..., Tracker], tmp_path: Path) -> None:
    uri = file_uri(tmp_path)
    tracker = opened(uri)
    with pytest.raises(Co2lError, match="another search is tracking"):
        opened(uri)
    opened(uri, "another study").close(60)
    tracker.close(60)
    opened(uri).close(60)


class Forbidding(BaseHTTPRequestHandler):
    """Answers like a server with accounts to someone who has none."""

    def do_GET(self) -> None:
        self.send_error(401, "You are not authenticated")

    def log_message(self, *_: Any) -> None:
        pass


def test_what_cannot_be_opened_says_so(
    opened: Callable[..., Tracker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:  # bound and not listening: nobody answers, and nobody else takes the port
        nobody.bind(("127.0.0.1", 0))
        began = time.monotonic()
        with pytest.raises(
            Co2lError, match=r"^http://me:\*\*\*@127.0.0.1:\d+: the tracking server cannot be reached; start"
        ):
            opened(f"http://me:secret@127.0.0.1:{nobody.getsockname()[1]}")
        assert time.monotonic() - began < 30
    with pytest.raises(Co2lError, match="cannot be used"):
        opened("nonsense://somewhere")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        with pytest.raises(Co2lError, match="the tracking server does not answer"):
            opened(f"http://127.0.0.1:{silent.getsockname()[1]}")
    with HTTPServer(("127.0.0.1", 0), Forbidding) as forbidding:
        threading.Thread(target=forbidding.serve_forever, daemon=True).start()
        with pytest.raises(Co2lError, match="does not let us in; set MLFLOW_TRACKING_USERNAME"):
            opened(f"http://127.0.0.1:{forbidding.server_port}")
        forbidding.shutdown()
    (tmp_path / "text.db").write_text("not a database, but long enough to look at " * 40)
    with pytest.raises(Co2lError, match=r"text.db: .*not a database"):
        opened(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(Co2lError, match="cannot be used"):
        opened(f"sqlite:///{tmp_path}")


def test_a_locked_database_says_so(
    opened: Callable[..., Tracker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.1)
    uri = file_uri(tmp_path)
    holder = sqlite3.connect(tmp_path / "mlflow.db")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(Co2lError, match=r"locked.*end what holds it"):
            opened(uri)
    finally:
        holder.close()
    opened(uri).close(60)


def test_the_accuracy_matrix_shows_every_number() -> None:
    figure = accuracy_matrix(RESULT["matrix"], "fast probe")
    (plane,) = figure.axes
    shown = [text.get_text() for text in plane.texts]
    assert [text for text in shown if text[-2:-1] == "."] == ["99.0", "60.0", "80.0", "99.0", "85.0", "95.0"]
    assert "Class-IL accuracy (%)" in shown
    assert "fast probe; 70.0 on average" in shown
    assert png(figure).startswith(PNG)


def test_a_note_leads_to_what_was_selected(space: Space, trials: list[Trial]) -> None:
    note = pages.search_note(space, [selected(trial) for trial in trials[:2]], ["parallel_coordinate", "importance"])
    addresses = {"experiment": "7", "study": "s", "table": "#t"}
    lines = pages.resolved(note, {trials[0].key: "r"}.get, **addresses).splitlines()
    assert lines[:4] == [
        "| ★ selected | Class-IL (%) | Task-IL (%) | val/score | to the second |",
        "| --- | --- | --- | --- | --- |",
        "| [η=0.1 κ=0.1 M=50](#/experiments/7/runs/r?workflowType=machine_learning) | 70.12 | 90.00 | 80.00 | – |",
        "| η=0.1 κ=0.1 M=100 | 70.12 | 90.00 | 80.00 | – |",  # whose run never began, as far as the server knows
    ]
    assert [line for line in lines if "](" in line][1:] == [
        "[All trials by val/score](#t) · [charts that compare them](#t&compareRunsMode=CHART)",
        "![importance](get-artifact?path=figures/importance.png&run_uuid=s)",
        "![parallel_coordinate](get-artifact?path=figures/parallel_coordinate.png&run_uuid=s)",
    ]
    assert pages.search_note(space, [], []).startswith("Nothing was selected.")


def test_a_note_fits_a_tag_however_much_was_selected(space: Space, trials: list[Trial]) -> None:
    many = [Selected({"M": i}, 80.0, {"variant": "a|b]c" * 99, "M": i}, {}, (trials[0].key,)) for i in range(300)]
    note = pages.search_note(space, many, pages.FIGURES)
    note = pages.resolved(note, lambda _: "r" * 32, experiment="1" * 18, study="s" * 32, table="t" * 100)
    assert len(note) <= 5000
    assert note.count("\n| [a b c") == 16
    assert "and 284 more." in note


def test_a_trial_is_named_in_the_letters_of_the_paper() -> None:
    axes = {"eta": [0.5], "tau": [0.5], "kappa": [0.2], "kappa_star": [0.01], "E_t": [100], "batch_size": [512]}
    keys = {"benchmark": "seq_cifar10", "axes": {**axes, "buffer_size": [200]}}
    name = "η=0.5 τ=0.5 κ=0.2 κ*=0.01 E=100 b=512 M=200"
    for seeds, names in (([0], [name]), ([0, 1], [f"{name} seed 0", f"{name} seed 1"])):
        space = parse({**keys, "seeds": seeds}, "test")
        assert [pages.run_name(space, trial) for trial in space.trials()] == names


def test_an_evaluation_has_a_note_and_a_table_of_its_seeds() -> None:
    keys = {"benchmark": "r_digits", "axes": {"kappa": [0.1, 0.2]}, "seeds": [0, 1]}
    space = parse(keys, "test", Evaluation)
    rows = [SeedSummary({"kappa": 0.1}, (0, 1), {"domain_il": (90.0, 92.0)})]
    lines = pages.evaluation_note(space, rows).splitlines()
    assert lines[0] == "| test accuracy (%) | seeds | Domain-IL |"
    assert lines[2] == "| kappa=0.1 | 2 | 91.00 ± 1.41 |"  # 2 / √2
    assert pages.evaluation_note(space, []).startswith("No test accuracy yet.")
    key, value = pages.view_tag(space, "r.test", "f" * 32, 5)
    view = json.loads(value)
    assert (key, view["name"], view["createdAt"]) == (
        "mlflow.sharedViewState.co2l-ffffffff",
        "r.test: all seeds",
        5,
    )
    state = json.loads(view["state"])
    assert state["searchFilter"] == f"tags.`mlflow.parentRunId` = '{'f' * 32}'"
    metrics, params = ["metrics.`test/score`", "metrics.`test/domain_il`"], ["params.`kappa`", "params.`seed`"]
    assert state["selectedColumns"] == [*metrics, *params, "tags.`co2l.status`"]
    assert (state["orderByKey"], state["orderByAsc"]) == ("attributes.`run_name`", True), "never by test accuracy"
    assert pages.table_address("3", "f" * 32).startswith("#/experiments/3/runs?viewStateShareKey=co2l-ffffffff&")
