"""What runs on the nodes of a Slurm job: the search with its head, or a worker that joins it and leaves again.

`cluster/slurm.sh` starts it, passes on the signal that comes before the time limit, and puts the job back into the
queue if this ends with 130.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from co2l.cli.arguments import study_of
from co2l.cli.console import INTERRUPTED, OK, PRIVATE, creating, interruptible, mask_of
from co2l.cluster.meeting import Head, versions, wait_for_head
from co2l.cluster.mirror import mirrored
from co2l.cluster.ray_node import RayNode, Resources, allocated, ray_node, reachable
from co2l.errors import Co2lError
from co2l.files import user_path
from co2l.search.running.leaving import leave
from co2l.search.running.private_folder import private_folder

HEAD_SECONDS = 300.0  # that a worker waits for a head
SAVE_SECONDS = 90.0  # for the trials of a worker that leaves to save their states
GONE_SECONDS = 3.0  # without an answer, after which a head is gone
FOREVER = "1e9"  # seconds to wait for the first worker, if no trial can run on the search's own node
COMMANDS = ("tune", "evaluate")

Asked = Callable[[], bool]


@dataclass(frozen=True)
class Task:
    """What the job is asked to do, by the words after `sbatch cluster/slurm.sh`."""

    command: str  # tune or evaluate
    root: Path
    store: str
    arguments: tuple[str, ...]  # the command's others
    mask: int
    driver_only: bool  # the search's own node runs no trials


def task_of(words: Sequence[str]) -> Task:
    """Each search has its own root, because only one job at a time may write there; all share the checkpoints."""
    command, arguments = (words[0], words[1:]) if words and words[0] in COMMANDS else ("tune", words)
    ours = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--root", "--store"):
        ours.add_argument(flag)
    ours.add_argument("--driver-only", action="store_true")
    known, rest = ours.parse_known_args(arguments)
    read = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # what the command gets to see too
    for flag in ("--space", "--study", "--config"):
        read.add_argument(flag)
    read.add_argument("--umask", type=mask_of, default=PRIVATE)
    named, _ = read.parse_known_args(rest)
    if not (named.space or named.study or named.config):
        raise Co2lError("no space is given", where="cluster/slurm.sh", fix="write --space FILE behind its name")
    everything = user_path(os.environ.get("CO2L_ROOT") or "runs", "CO2L_ROOT").absolute()
    own = everything / (named.study or study_of(named.space or named.config))
    return Task(
        command=command,
        root=user_path(known.root, "--root").absolute() if known.root else own,
        store=known.store or os.environ.get("CO2L_STORE") or f"{everything}/store",
        arguments=tuple(rest),
        mask=named.umask,
        driver_only=known.driver_only,
    )


def main(words: Sequence[str]) -> int:
    """The search, on its job's first node; with --node first, another node of it; with --join, a worker's own job."""
    with interruptible() as asked:
        if words[:1] == ["--node"]:
            this = _this_start()
            work(task_of(words[1:]).root, asked, lambda head: head.job == this)
            return OK
        if words[:1] == ["--join"]:
            return join(task_of(words[1:]).root, asked)
        return search(task_of(words), asked)


def search(task: Task, asked: Asked) -> int:
    """Drive the search on a new head, as far as it comes."""
    job, token = _this_start(), secrets.token_hex(32)
    resources = Resources(0, 0) if task.driver_only else allocated()
    with creating(task.mask), private_folder() as folder:
        local = folder.path / "root"
        with mirrored(task.root, local), ray_node(folder.path, resources, token, None) as node:
            Head("running", job, node.address, token, versions()).announce(task.root)
            code = INTERRUPTED
            try:
                code = _drive(task, local, node, token, asked)
            finally:
                Head("away" if code == INTERRUPTED else "ended", job).announce(task.root)
    return code


def _drive(task: Task, local: Path, node: RayNode, token: str, asked: Asked) -> int:
    words = [*task.arguments, "--root", str(local), "--store", task.store, "--address", node.address]
    words += ["--wait", FOREVER] if task.driver_only else []
    driver = subprocess.Popen(
        [sys.executable, "-m", f"co2l.{task.command}", *words],
        env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "CO2L_KEPT_ROOT": str(task.root)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # one signal asks it to stop; a second one ends it at once
    )
    shown = threading.Thread(target=_show, args=(driver, str(local), str(task.root)))
    shown.start()
    try:
        told = False
        while driver.poll() is None:
            if not told and (asked() or node.process.poll() is not None):
                driver.send_signal(signal.SIGTERM)
                told = True
            time.sleep(0.2)
    finally:
        driver.kill()
        driver.wait()
        shown.join()
    return int(driver.returncode) if driver.returncode >= 0 else INTERRUPTED


def _show(driver: subprocess.Popen[str], local: str, root: str) -> None:
    """What the search prints, with the root where it will be found."""
    assert driver.stdout is not None
    for line in driver.stdout:
        print(line.replace(local, root), end="", flush=True)


def join(root: Path, asked: Asked) -> int:
    """Work for the search, under one head after the other, until it has ended or the job's own time is nearly up."""
    while not asked():
        head = work(root, asked, lambda _: True)
        if head is None:
            break
        if head.state == "ended":
            return OK
    return INTERRUPTED


def work(root: Path, asked: Asked, wanted: Callable[[Head], bool]) -> Head | None:
    """Be a node of the next head, for as long as it is there; None if there was none, or none any more."""
    head = wait_for_head(
        root, lambda each: wanted(each) and (each.state == "ended" or reachable(each.address)), asked, HEAD_SECONDS
    )
    if head is not None and head.state == "running":
        try:
            _serve(head, asked)
        except Co2lError:
            if reachable(head.address):
                raise
    return head


def _serve(head: Head, asked: Asked) -> None:
    with (
        creating(PRIVATE),
        private_folder() as folder,
        ray_node(folder.path, allocated(), head.token, head.address) as node,
    ):
        answered = time.monotonic()
        while not asked():
            if node.alive:
                answered = time.monotonic()
            elif node.process.poll() is not None or time.monotonic() - answered > GONE_SECONDS:
                return
            time.sleep(1)
        leave(folder.path, SAVE_SECONDS, lambda: node.alive)


def _this_start() -> str:
    """The job, and how often it was started before."""
    return f"{os.environ.get('SLURM_JOB_ID', '')}.{os.environ.get('SLURM_RESTART_COUNT') or 0}"
