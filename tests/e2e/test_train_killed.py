"""python -m co2l.train: exact through kills and Ctrl-C, and nothing lost on a full disk."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import SHORT, Started, call_here, environment, start
from mistakes import check_documented

LONGER = ["--set", "E_0=15", "--set", "E_t=12", "--set", "probe_epochs=3"]


def trained(*arguments: str, cwd: Path) -> Any:
    done = call_here("co2l.train", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return trained(*LONGER, cwd=tmp_path_factory.mktemp("through"))


def wait_for_a_new_state(root: Path, since: float, process: Started) -> None:
    """Until the process has computed something of its own, or has ended."""
    while process.poll() is None:
        for path in [*root.rglob("*.partial"), *root.rglob("*.state")]:
            with contextlib.suppress(FileNotFoundError):  # a partial state is replaced all the time
                if path.stat().st_mtime > since:
                    return
        time.sleep(0.01)


def test_killed_ten_times_and_continued(tmp_path: Path, undisturbed_run: Any) -> None:
    """SIGKILL at ten random moments of the computation; the same command each time; the same bits at the end."""
    seed = random.randrange(10**6)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(10):
        since = time.time()
        process = start("co2l.train", *LONGER, "--save-every", "0.02", cwd=tmp_path)
        wait_for_a_new_state(tmp_path / "runs", since, process)
        time.sleep(rng.uniform(0, 0.05))  # ten of them are a small part of the run, even on a fast machine
        assert process.poll() is None, "it ended before it could be killed: make the run longer"
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert trained(*LONGER, cwd=tmp_path) == undisturbed_run


def test_ctrl_c_leaves_a_state_to_continue_from(tmp_path: Path, undisturbed_run: Any) -> None:
    since = time.time()
    process = start("co2l.train", *LONGER, "--save-every", "0.02", cwd=tmp_path)
    wait_for_a_new_state(tmp_path / "runs", since, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    check_documented("interrupted run", err)
    assert list((tmp_path / "runs").rglob("*.partial"))
    assert trained(*LONGER, cwd=tmp_path) == undisturbed_run


def test_no_space_left_ends_with_one_line_and_keeps_what_is_stored(tmp_path: Path) -> None:
    """A file size limit stands in for a full disk: both make the write fail half way."""
    before = trained(*SHORT, cwd=tmp_path)
    stored = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.*")}

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    full = subprocess.run(
        [sys.executable, "-m", "co2l.train", *SHORT, "--seed", "1"],
        cwd=tmp_path,
        env=environment(),
        preexec_fn=small_files_only,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in full.stderr.splitlines() if line.startswith("co2l: ")]
    assert full.returncode == 2
    assert len(lines) == 1, full.stderr
    assert "everything finished so far is kept" in lines[0]
    assert "Traceback" not in full.stderr
    assert {path: path.read_bytes() for path in stored} == stored
    assert trained(*SHORT, cwd=tmp_path) == before
