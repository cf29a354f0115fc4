"""A real MLflow server on loopback that a test can take away and bring back."""

from __future__ import annotations

import functools
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from co2l.search.tracking.connection import connect


class Server:
    """`mlflow server` on loopback, with its database and artifacts in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "server.db").write_bytes(empty_database())
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(self.port)]
        command += ["--host", "127.0.0.1", "--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        command += ["--artifacts-destination", str(self.folder / "kept")]
        quick = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **quick}
            )
        wait_for(self._answers, 120)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
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
        os.killpg(self.process.pid, signal.SIGKILL)  # its own session: the server's processes and no others
        self.process.wait()


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
