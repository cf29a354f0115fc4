"""A real MLflow server on loopback that a test can take away and bring back."""

from __future__ import annotations

import functools
import http.client
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

from commands import FORKS

from co2l.search.tracking.connection import connect


class Server:
    """`mlflow server` on loopback, with its database and artifacts in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: BaseProcess | None = None
        (folder / "server.db").write_bytes(empty_database())
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = ["server", "--workers", "1", "--port", str(self.port), "--host", "127.0.0.1"]
        words += ["--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        words += ["--artifacts-destination", str(self.folder / "kept")]
        self.process = FORKS.Process(target=_serve, args=(words, self.folder / "server.log"))
        self.process.start()
        wait_for(self._answers, 120)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.exitcode is None, (self.folder / "server.log").read_text()[-2000:]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.pid is not None
        os.killpg(self.process.pid, signal.SIGKILL)  # its own session: the server's processes and no others
        self.process.join()


def _serve(words: list[str], log: Path) -> NoReturn:
    """In the new process, which has imported MLflow: `mlflow server`, which would start one more for Uvicorn."""
    os.setsid()
    for number in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115  not pytest's
    os.environ.update({"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
    import mlflow.cli
    import mlflow.server
    import uvicorn

    def here(command: list[str], extra_env: dict[str, str], **_: object) -> NoReturn:
        _python, _m, _uvicorn, *rest = command
        os.environ.update(extra_env)
        uvicorn.main(rest)
        sys.exit(1)

    mlflow.server._exec_cmd = here
    mlflow.cli.cli(words)
    sys.exit(1)


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def file_uri(folder: Path) -> str:
    """Of a new database in the folder, where the commands have theirs below their root."""
    (folder / "mlflow.db").write_bytes(empty_database())
    return f"sqlite:///{folder}/mlflow.db"


@functools.cache
def empty_database() -> bytes:
    """A database with MLflow's tables, which take seconds to make."""
    with tempfile.TemporaryDirectory() as folder:
        connect(f"sqlite:///{folder}/empty.db").search_experiments()
        return (Path(folder) / "empty.db").read_bytes()
