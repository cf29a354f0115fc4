"""A Ray for one search on this machine: on loopback, behind a token, in a private folder and a session of its own.

A process of its own starts it, so that a signal to our process group (`timeout`, Slurm, a closed terminal) reaches
neither Ray nor the trials, which then have the time to save their states. That process ends Ray and removes the folder
when we say so, or when we are gone.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from co2l.errors import headline
from co2l.loading import loading
from co2l.search.running.private_folder import private_folder, remove

END_SECONDS = 15.0  # for Ray to end its processes
RAYS_OWN = "r"  # folder, which Ray opens to everybody; that around it stays closed
ADDRESS_FILE = "ray_current_cluster"  # in which `ray start` leaves the address, and `ray.init` looks for it
STARTED = "started\n"


@contextlib.contextmanager
def local_ray(searches: int = 1) -> Iterator[LocalRay]:
    """Begins to start Ray for so many searches, and does not wait for it; ends it with the block."""
    with private_folder() as folder:
        started = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            pass_fds=[folder.lock],
            env={**os.environ, **_variables()},
        )
        ray = LocalRay(started, folder.path, searches)
        try:
            yield ray
        finally:
            ray.end()


@contextlib.contextmanager
def early_ray(address: str | None, searches: int = 1) -> Iterator[LocalRay | None]:
    """The Ray that a search at `address` needs starts while its driver imports and opens the rest; None if it runs."""
    running = "ray" in sys.modules and sys.modules["ray"].is_initialized()
    with contextlib.nullcontext() if address or running else local_ray(searches) as ray:
        yield ray


def _variables() -> dict[str, str]:
    """Of its processes, which import this package from the same files as we do."""
    path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
    spared = {"RAY_prestart_worker_first_driver": "0"}  # Tune's actors have an environment of their own: none is used
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token(), "PYTHONPATH": path, **spared}


class LocalRay:
    """A Ray that is starting or has started."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, searches: int = 1) -> None:
        self._process, self.folder, self._searches = process, folder, searches
        self._started = False

    def wait(self) -> None:
        """Until it has started."""
        assert self._process.stdout is not None
        if not self._started:
            answer = self._process.stdout.readline()
            if answer != STARTED:
                raise ConnectionError(answer.strip() or "its processes ended")
            self._started = True

    def leave(self) -> None:
        """A search needs it no more; after the last one it begins to end, which takes a second or two."""
        self._searches -= 1
        if self._searches == 0:
            self._dismiss()

    def _dismiss(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        assert self._process.stdout is not None
        self._dismiss()
        try:
            self._process.wait(END_SECONDS if self._started else 0)  # nobody needed it: do not wait until it has
        except subprocess.TimeoutExpired:
            self._process.kill()  # and the kernel what it started
            self._process.wait()
        self._process.stdout.close()

    @contextlib.contextmanager
    def introduced(self) -> Iterator[str]:
        """Inside, `ray.init(_temp_dir=…)` with what this yields connects to this Ray, by its token."""
        before = {name: os.environ.pop(name, None) for name in ("RAY_ADDRESS", "RAY_AUTH_MODE")}
        # Without a mode, Ray looks for a token, finds this one, and uses it: the mode is else read at Ray's import
        os.environ["RAY_AUTH_TOKEN"] = token()
        try:
            yield str(self.folder / RAYS_OWN)
        finally:
            os.environ.update({name: value for name, value in before.items() if value is not None})


@functools.cache
def token() -> str:
    """One for each process: Ray keeps the first that it sees."""
    return secrets.token_hex(32)


def main() -> None:
    """In the process that starts Ray: end it when nobody holds our input open any more."""
    folder = Path(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # only the end of the search ends Ray
    try:
        with contextlib.redirect_stdout(sys.stderr):
            _start(folder / RAYS_OWN)
        print(STARTED, end="", flush=True)
    except Exception as error:  # Ray raises many kinds here, and tells the reason only in words
        print(headline(error), flush=True)
    sys.stdin.read()
    sys.modules["ray"].shutdown()
    remove(folder)  # else it is left if the search was killed


def _start(folder: Path) -> None:
    with loading():
        import ray

    leave_out_helpers()
    before = signal.getsignal(signal.SIGTERM)
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
        _temp_dir=str(folder),
    )
    signal.signal(signal.SIGTERM, before)  # Ray takes it for itself
    (folder / ADDRESS_FILE).write_text(ray.get_runtime_context().gcs_address)


def leave_out_helpers() -> None:
    """Ray starts without its autoscaler, log monitor and dashboard, each a Python of its own: nothing here asks them.

    `ray.init` has no argument for the first two, and starts most of a dashboard even if it is to be left out. A Ray
    in which they have other names starts with all of them.
    """
    try:
        from ray._private.node import Node
    except ImportError:
        return

    def nothing(node: Any, **_: object) -> None:
        node._webui_url = ""  # as Ray has it without a dashboard

    for name in ("start_monitor", "start_log_monitor", "start_api_server"):
        setattr(Node, name, nothing)


if __name__ == "__main__":
    main()
