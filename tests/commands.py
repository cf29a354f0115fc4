"""Run the commands in this process, in one that can be killed, or in a new Python as a user does."""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import io
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import forkserver, util
from pathlib import Path
from typing import NoReturn, TextIO

import pytest

from co2l.cli.console import execute

SHORT = ["--set", "E_0=4", "--set", "E_t=3", "--set", "probe_epochs=3"]
IMPORTED = ["co2l.search.service", "co2l.cli.search_progress", "co2l.cli.run_progress", "co2l.learning.run"]
IMPORTED += ["mlflow", "mlflow.store.tracking.sqlalchemy_store", "matplotlib.pyplot", "pytest"]

FORKS = multiprocessing.get_context("forkserver")  # a process has one server for all contexts
FORKS.set_forkserver_preload(IMPORTED)  # of which the last list counts


def fork_server() -> None:
    """Fork it from this process, before its tests, threads or a Ray: it need not import everything once more."""
    spawn = util.spawnv_passfds

    def fork(path: bytes, words: list[str], kept: list[int]) -> int:
        if "forkserver" not in words[-1]:
            return int(spawn(path, words, kept))
        if process := os.fork():
            return process
        try:
            _serve(*kept)
        finally:
            os._exit(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(util, "spawnv_passfds", fork)
        forkserver.ensure_running()


def _serve(listener: int, alive: int) -> NoReturn:
    """In the server: forget the tests, and import what they have not, once somebody asks."""
    faulthandler.disable()
    atexit._clear()
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)  # as Python itself does
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    # not closed: the numbers would be given to new files, and these be closed with the objects that had them before
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in {int(each.name) for each in Path("/dev/fd").iterdir()} - {0, 1, 2, listener, alive, nowhere}:
        os.dup2(nowhere, number, inheritable=False)
    select.select([listener, alive], [], [])
    forkserver.main(listener, alive, IMPORTED)
    os._exit(0)


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **changes}


def call(module: str, *arguments: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """The command in a new Python, which takes seconds to import what it needs."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def call_here(
    module: str, *arguments: str | Path, cwd: Path, terminal: TextIO | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in this process, which has imported everything and may have a Ray for it."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(terminal or out), redirect_stderr(terminal or err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", [module, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            execute(importlib.import_module(module).main)
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess([module, *arguments], ended.value.code, out.getvalue(), err.getvalue())


def refusal_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one line, after those on what was being done, that says why a command did not go on."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    *before, line = done.stderr.splitlines()
    assert line.startswith("co2l: "), done.stderr
    assert not [each for each in before if each.startswith(("co2l: ", "Traceback"))], done.stderr
    return line


class Started:
    """A command in a process of its own, forked from one that has imported everything; as far as needed a Popen."""

    def __init__(
        self,
        module: str,
        arguments: tuple[str | Path, ...],
        cwd: Path,
        *,
        leads_group: bool = False,
        variables: dict[str, str] | None = None,
    ) -> None:
        self.printed = Path(tempfile.mkdtemp(prefix="printed-", dir=cwd))
        for name in ("out", "err"):
            (self.printed / name).touch()  # a process killed at once prints nothing, which is an answer too
        words = [module, *map(str, arguments)]
        self.process = FORKS.Process(target=_run, args=(words, cwd, self.printed, leads_group, variables))
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.process.name, timeout or 0.0)
        out, err = ((self.printed / name).read_text() for name in ("out", "err"))
        return out, err

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def start(module: str, *arguments: str | Path, cwd: Path, leads_group: bool = False, **changes: str) -> Started:
    variables = environment(**changes) if changes else None
    return Started(module, arguments, cwd, leads_group=leads_group, variables=variables)


def call_forked(module: str, *arguments: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """As `call`, but in a process that has imported everything: for what does not depend on how a Python starts."""
    started = Started(module, arguments, cwd, variables=environment(**changes))
    out, err = started.communicate(600)
    assert started.returncode is not None
    return subprocess.CompletedProcess([module, *arguments], started.returncode, out, err)


def _run(
    words: list[str], cwd: Path, printed: Path, leads_group: bool, variables: dict[str, str] | None = None
) -> None:
    """In the new process: what `python -m` would do."""
    if leads_group:
        os.setsid()
    os.chdir(cwd)
    if variables is not None:
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:0] = [each for each in variables.get("PYTHONPATH", "").split(os.pathsep) if each]
        importlib.import_module("own_plugins").forget()  # packages that were looked for before, on another path
    for name, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(printed / name, os.O_WRONLY | os.O_APPEND), number)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115  not pytest's
    sys.argv = words
    try:
        execute(importlib.import_module(words[0]).main)
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out
