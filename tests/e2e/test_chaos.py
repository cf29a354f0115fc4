"""Whole searches that are killed, stopped, or robbed of their workers or their MLflow server, and what is left then."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pytest
from commands import call, start
from mlflow import MlflowClient
from mlflow_server import Server, wait_for
from searches import (
    CELLS,
    SPACE,
    TASKS,
    Undisturbed,
    check_complete,
    driven,
    runs,
    scores,
    tune,
    write_space,
)

from co2l.learning.store import Store

PATIENCE = 400.0  # seconds, on a machine with much else to do
pytestmark = pytest.mark.timeout(1800)


def search(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Started, and alone in its process group as from a terminal."""
    return start("co2l.tune", "--space", "small.yaml", *arguments, cwd=folder, start_new_session=True)


def wait_in(process: subprocess.Popen[str], condition: object) -> None:
    def happened() -> bool:
        assert process.poll() is None, f"it ended too early: {process.communicate()}"
        return bool(condition())  # type: ignore[operator]

    wait_for(happened, PATIENCE)


def kill_everything(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the driver and to all that it started, Ray's processes too."""
    driver = psutil.Process(process.pid)
    family = [driver, *driver.children(recursive=True)]
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    process.communicate()
    psutil.wait_procs(family, timeout=60)


class States(threading.Thread):
    """Looks at a store all the time, and notes how far each stage was at its mid-stage states."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.root, self.ended = root, threading.Event()
        self.places: dict[str, list[tuple[int, int]]] = defaultdict(list)  # stage -> epoch and step, as they came
        self.finished: dict[str, set[int]] = defaultdict(set)  # stage -> when its state was written

    def run(self) -> None:
        store = Store(self.root)
        while not self.ended.wait(0.02):
            for path in self.root.glob("*/*.*"):
                key = f"{path.parent.name}/{path.stem}"
                try:
                    if path.suffix == ".state":
                        self.finished[key].add(path.stat().st_mtime_ns)
                except FileNotFoundError:
                    continue
                if path.suffix == ".partial" and (state := store.load_state(key, partial=True)):
                    place = state["epoch"], state["step"]
                    if self.places[key][-1:] != [place]:
                        self.places[key].append(place)

    def stop(self) -> None:
        self.ended.set()
        self.join()


def test_everything_killed_at_five_random_moments(folder: Path, undisturbed: Undisturbed) -> None:
    rng = random.Random()
    root = folder / "runs"
    states = States(root / "store")
    states.start()
    evaluated = sorted(rng.sample(range(24), 5))  # of at least 34 stages
    print("killed after", evaluated)
    for number in evaluated:
        process = search(folder, "--save-every", "0.02")
        wait_in(process, lambda number=number: len(list(root.glob("store/*/*.json"))) >= number)
        time.sleep(rng.random())
        assert process.poll() is None
        kill_everything(process)
    final = tune(folder, "--save-every", "0.02")
    states.stop()
    assert scores(root) == undisturbed.scores
    assert final["selected"] == undisturbed.outcome["selected"]
    assert final["cells_left"] == 0
    check_complete(root)
    assert states.places
    for stage, places in states.places.items():  # nobody ever went back behind a state
        assert places == sorted(places), (stage, places)
    assert all(len(times) == 1 for times in states.finished.values())


def test_ten_workers_killed(folder: Path, undisturbed: Undisturbed) -> None:
    rng = random.Random()
    process = search(folder, "--json", "--save-every", "0.02")
    killed: set[int] = set()
    states = folder / "runs" / "store"

    def progress() -> set[tuple[str, int]]:
        found = set()
        for path in states.glob("*/*.*"):
            with contextlib.suppress(FileNotFoundError):
                found.add((path.name, path.stat().st_mtime_ns))
        return found

    def workers() -> list[psutil.Process]:
        found = []
        for each in psutil.Process(process.pid).children(recursive=True):
            try:
                if each.pid not in killed and "Trainable" in " ".join(each.cmdline()):
                    found.append(each)
            except psutil.Error:
                continue
        return found

    while len(killed) < 10:
        before = progress()
        wait_in(process, lambda before=before: progress() - before)  # a cell that never gets on fails by design
        time.sleep(rng.random())
        if alive := workers():
            victim = rng.choice(alive)
            victim.kill()
            killed.add(victim.pid)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert scores(folder / "runs") == undisturbed.scores
    check_complete(folder / "runs")
    assert json.loads(out)["failed"] == {}


def test_the_mlflow_server_away_for_half_a_minute(tmp_path: Path, server: Server) -> None:
    folder = write_space(tmp_path)
    root = folder / "runs"
    process = search(folder, "--tracking-uri", server.uri)
    wait_in(process, lambda: scores(root))
    server.kill()
    gone, before = time.monotonic(), len(scores(root))
    wait_in(process, lambda: len(scores(root)) >= before + 2)  # nobody waits for the server
    time.sleep(max(0.0, 30 - (time.monotonic() - gone)))
    server.start()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "wait for MLflow" not in out
    check_nothing_missing(root, server.uri)


def check_nothing_missing(root: Path, uri: str) -> None:
    """Every epoch that a cell trained is there: all of them, or all but those of a first stage from the store."""
    check_complete(root, uri)
    client, (parents, children) = MlflowClient(uri), runs(uri)
    first, later = SPACE["settings"]["E_0"], SPACE["settings"]["E_t"]
    steps = first + (TASKS - 1) * later
    found = scores(root)
    makers = 0
    for run in children:
        trained = [each.step for each in client.get_metric_history(run.info.run_id, "lr")]
        assert trained == sorted(set(trained))
        makers += trained[0] == 1
        for name, expected in {
            "loss/supcon": list(range(trained[0], steps + 1)),
            "lr": list(range(1 if trained[0] == 1 else first + 1, steps + 1)),
            "loss/distill": list(range(first + 1, steps + 1)),
            "val/score": [first + t * later for t in range(TASKS)],
        }.items():
            told = [each.step for each in client.get_metric_history(run.info.run_id, name)]
            assert told == expected, name
        assert run.data.metrics["val/score"] == found[run.data.tags["co2l.cell"]]["score"]
        files = {each.path for each in client.list_artifacts(run.info.run_id)}
        assert {"accuracy_matrix.json", "accuracy_matrix.png"} <= files
    assert makers == 2  # one for each of the two first stages
    assert client.list_artifacts(parents[0].info.run_id)


def test_ctrl_c_a_second_driver_and_a_server_that_is_away_at_the_end(
    folder: Path, server: Server, undisturbed: Undisturbed
) -> None:
    root = folder / "runs"
    command = "--tracking-uri", server.uri, "--max-concurrent", "1"
    first = search(folder, *command)
    wait_in(first, lambda: driven(root))
    elsewhere = "--root", "elsewhere", "--storage", f"sqlite:///{root}/study.db"
    second = call("co2l.tune", "--space", "small.yaml", *elsewhere, cwd=folder)
    assert second.returncode == 2
    assert f"another search drives this study (process {first.pid} on" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    wait_in(first, lambda: scores(root))
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, err
    assert "cells are left; the same command continues" in out
    assert "Traceback" not in err
    parents, children = runs(server.uri)
    assert "RUNNING" not in {run.info.status for run in parents + children}

    again = search(folder, *command)
    done = len(scores(root))
    wait_in(again, lambda: len(scores(root)) > done)
    server.kill()
    again.terminate()  # as a cluster's job is stopped: its driver alone
    out, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 130, err
    assert "wait for MLflow; the same command sends them" in out
    server.start()
    tune(folder, *command)
    assert scores(root) == undisturbed.scores
    assert len(scores(root)) == CELLS
    check_nothing_missing(root, server.uri)
