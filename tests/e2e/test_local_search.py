"""A search on this machine, seen by a stranger and ended by a signal to its process group."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import stat
from pathlib import Path

import psutil
from commands import Started, start
from mlflow_server import wait_for
from searches import runs, write_space

PATIENCE = 400.0  # seconds, on a machine with much else to do
ENDS = 15.0  # seconds from a signal to the end


def listening(processes: list[psutil.Process]) -> set[str]:
    """The addresses at which any of them takes connections."""
    members = {each.pid for each in processes}
    found = [each for each in psutil.net_connections("inet") if each.pid in members and each.status == "LISTEN"]
    return {each.laddr.ip.removeprefix("::ffff:") for each in found}


def sockets(processes: list[psutil.Process]) -> list[Path]:
    members = {each.pid for each in processes}
    found = {each.laddr for each in psutil.net_connections("unix") if each.pid in members}
    return [Path(each) for each in found if isinstance(each, str) and each.startswith("/")]


def enterable(path: Path) -> bool:
    """Whether others come to this file: every folder above it lets them through."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def readable(root: Path) -> list[str]:
    """What group or others may read, write or enter."""
    return [str(path) for path in [root, *root.rglob("*")] if path.exists() and path.lstat().st_mode & 0o077]


def test_strangers_see_nothing_and_a_signal_to_the_group_loses_nothing(folder: Path) -> None:
    write_space(folder, settings={"E_0": 2, "E_t": 5000, "probe_epochs": 3})  # the second stage outlasts the test
    root = folder / "runs"
    for path in [root, *root.iterdir()]:  # made by the fixture
        path.chmod(0o700 if path.is_dir() else 0o600)
    process = start("co2l.tune", "--space", "small.yaml", cwd=folder, leads_group=True)
    driver = psutil.Process(process.pid)
    wait_for(lambda: process.poll() is not None or in_second_stage(root), PATIENCE)
    family = [driver, *driver.children(recursive=True)]
    try:
        private = check_closed(family, root)
        stop(process, root)
        assert not [path for path in private if path.exists()]
        assert not readable(root)
        _gone, alive = psutil.wait_procs(family, timeout=10)
        assert not alive
    finally:
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def in_second_stage(root: Path) -> bool:
    """Whether a trial has reported an epoch of it: there is something to save."""
    with contextlib.closing(sqlite3.connect(root / "mlflow.db")) as database:
        return bool(database.execute("select 1 from metrics where key = 'lr' and step > 2 limit 1").fetchall())


def check_closed(family: list[psutil.Process], root: Path) -> set[Path]:
    """To everybody but its owner, while it runs. Returns the folders with its sockets."""
    assert listening(family) == {"127.0.0.1"}
    paths = sockets(family)
    assert paths
    assert not [path for path in paths if enterable(path)]
    assert not readable(root)
    commands = [" ".join(each.cmdline()) for each in family if each.is_running()]
    (token,) = {value for each in family if (value := each.environ().get("RAY_AUTH_TOKEN"))}
    assert not [words for words in commands if token in words]
    return {Path(*path.parts[:3]) for path in paths}  # below the temporary folder


def stop(process: Started, root: Path) -> None:
    """As `timeout`, Slurm and Kubernetes do; states are saved, and nothing is left open."""
    assert not list(root.glob("store/*/*.partial"))
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=ENDS)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    parents, children = runs(f"sqlite:///{root}/mlflow.db")
    assert "RUNNING" not in {run.info.status for run in parents + children}
    assert list(root.glob("store/*/*.partial"))
