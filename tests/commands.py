"""Start the commands as a user would: real processes, in a folder of their own."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from co2l.console import execute

SHORT = ["--set", "E_0=4", "--set", "E_t=3", "--set", "probe_epochs=3"]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **changes}


def start(
    module: str, *arguments: str | Path, cwd: Path, start_new_session: bool = False, **changes: str
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


def call(module: str, *arguments: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    process = start(module, *arguments, cwd=cwd, **changes)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def call_here(module: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in this process, which has torch and MLflow already; for what ends before Ray is started."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", [module, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            execute(importlib.import_module(module).main)
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess([module, *arguments], ended.value.code, out.getvalue(), err.getvalue())
