"""Start the commands as a user would: real processes, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SHORT = ["--set", "E_0=4", "--set", "E_t=3", "--set", "probe_epochs=3"]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **changes}


def start(
    module: str, *arguments: str, cwd: Path, start_new_session: bool = False, **changes: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


def call(module: str, *arguments: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    process = start(module, *arguments, cwd=cwd, **changes)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
