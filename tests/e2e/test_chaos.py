"""Whole searches that are killed, stopped, or robbed of their workers or their MLflow server, and what is left then."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from commands import Started, call_here, refusal_of, start
from mistakes import check_documented
from mlflow import MlflowClient
from mlflow_server import Server, wait_for
from searches import SPACE, TASKS, Undisturbed, check_complete, driven, runs, scores

from co2l.learning.store import Store

PATIENCE = 400.0  # seconds, on a machine with much else to do
KILLS = int(os.environ.get("CO2L_KILLS", "2"))  # a whole Ray, or a worker's imports, are paid for each
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def rng() -> random.Random:
    seed = random.randrange(10**6)
    print("seed", seed)
    return random.Random(seed)


def search(folder: Path, *arguments: str) -> Started:
    """Started, and alone in its process group as from a terminal."""
    return start("co2l.tune", "--space", "small.yaml", *arguments, cwd=folder, leads_group=True)


def finished(process: Started) -> str:
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return out


def wait_in(process: Started, condition: Callable[[], object]) -> None:
    def happened() -> bool:
        assert process.poll() is None, f"it ended too early: {process.communicate()}"
        return bool(condition())

    wait_for(happened, PATIENCE)


def kill_everything(process: Started) -> None:
    """SIGKILL to the driver and to all that it started, Ray's processes too."""
    driver = psutil.Process(process.pid)
    family = [driver, *driver.children(recursive=True)]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.communicate()
    psutil.wait_procs(family, timeout=60)


class States(threading.Thread):
    """Looks at a store all the time, and notes how far each stage was at its mid-stage states."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.root, self.ended = root, threading.Event()
        self.reached: dict[str, list[tuple[int, int]]] = defaultdict(list)  # stage -> epoch and step, as they came
        self.finished: dict[str, set[int]] = defaultdict(set)  # stage -> when its state was written

    def run(self) -> None:
        store, seen = Store(self.root), dict[Path, int]()
        while not self.ended.wait(0.1):
            for path in self.root.glob("*/*.*"):
                key = f"{path.parent.name}/{path.stem}"
                try:
                    written = path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue
                if path.suffix == ".state":
                    self.finished[key].add(written)
                elif path.suffix == ".partial" and seen.get(path) != written:
                    seen[path] = written
                    if state := store.load_state(key, partial=True):
                        self.reached[key].append((state["epoch"], state["step"]))

    def stop(self) -> None:
        self.ended.set()
        self.join()


def test_everything_killed_at_random_moments(folder: Path, undisturbed: Undisturbed, rng: random.Random) -> None:
    root = folder / "runs"
    states = States(root / "store")
    states.start()
    for number in sorted(rng.sample(range(24), KILLS)):  # of at least 34 stages
        process = search(folder, "--save-every", "0.02")
        wait_in(process, lambda number=number: len(list(root.glob("store/*/*.json"))) >= number)  # type: ignore[misc]
        time.sleep(rng.random() / 2)
        assert process.poll() is None
        kill_everything(process)
    final = json.loads(finished(search(folder, "--json", "--save-every", "0.02")))
    states.stop()
    assert scores(root) == undisturbed.scores
    assert final["selected"] == undisturbed.outcome["selected"]
    assert final["trials_left"] == 0
    check_complete(root)
    assert states.reached
    for stage, steps in states.reached.items():  # nobody ever went back behind a state
        assert steps == sorted(steps), (stage, steps)
    assert all(len(times) == 1 for times in states.finished.values())


def test_workers_killed_at_random_moments(folder: Path, undisturbed: Undisturbed, rng: random.Random) -> None:
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
            with contextlib.suppress(psutil.Error):
                if each.pid not in killed and "Trainable" in " ".join(each.cmdline()):
                    found.append(each)
        return found

    while len(killed) < KILLS:
        before = progress()
        wait_in(process, lambda before=before: progress() - before)  # type: ignore[misc]  # else it fails by design
        time.sleep(rng.random() / 2)
        if alive := workers():
            victim = rng.choice(alive)
            victim.kill()
            killed.add(victim.pid)
    outcome = json.loads(finished(process))
    assert outcome["failed"] == {}
    assert outcome["selected"] == undisturbed.outcome["selected"]
    assert scores(folder / "runs") == undisturbed.scores
    check_complete(folder / "runs")


def test_ctrl_c_a_second_driver_sigterm_and_a_server_that_is_away(
    folder: Path, server: Server, undisturbed: Undisturbed
) -> None:
    root = folder / "runs"
    command = "--tracking-uri", server.uri, "--max-concurrent", "1"
    first = search(folder, *command)
    wait_in(first, lambda: driven(root))
    elsewhere = "--root", "elsewhere", "--storage", f"sqlite:///{root}/study.db"
    second = call_here("co2l.tune", "--space", "small.yaml", *elsewhere, cwd=folder)
    assert f"another search drives this study (process {first.pid} on" in refusal_of(second)
    wait_in(first, lambda: scores(root))
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130, err
    check_documented("interrupted search", out + err)
    parents, children = runs(server.uri)
    assert "RUNNING" not in {run.info.status for run in parents + children}

    again = search(folder, *command)
    done = len(scores(root))
    wait_in(again, lambda: len(scores(root)) > done)
    server.kill()
    again.send_signal(signal.SIGTERM)  # as a cluster's job is stopped: its driver alone
    out, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 130, err
    assert "wait for MLflow; run the same command to send them" in out

    server.start()
    last = search(folder, *command)
    done = len(scores(root))
    wait_in(last, lambda: len(scores(root)) > done)
    server.kill()
    gone, done = time.monotonic(), len(scores(root))
    wait_in(last, lambda: len(scores(root)) >= done + 2)  # nobody waits for the server
    time.sleep(max(0.0, 30 - (time.monotonic() - gone)))  # half a minute
    server.start()
    assert "wait for MLflow" not in finished(last)
    assert scores(root) == undisturbed.scores
    check_nothing_missing(root, server.uri)


def check_nothing_missing(root: Path, uri: str) -> None:
    """Every epoch that a trial trained is there: all of them, or all but those of a first stage from the store."""
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
            "val_fast/score": [first + t * later for t in range(TASKS)],
            "val_fast/forgetting_class_il": [first + t * later for t in range(1, TASKS)],
            "val/score": [steps],
        }.items():
            logged = [each.step for each in client.get_metric_history(run.info.run_id, name)]
            assert logged == expected, name
        assert run.data.metrics["val/score"] == round(found[run.data.tags["co2l.trial"]]["score"], 2)
        files = {each.path for each in client.list_artifacts(run.info.run_id)}
        assert {"accuracy_matrix.json", "accuracy_matrix.png"} <= files
    assert makers == 2  # one for each of the two first stages
    assert client.list_artifacts(parents[0].info.run_id)
