"""How to look at what was tracked: the command that starts the MLflow UI here, and the page to open in it."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from pathlib import Path

PORTS = range(5000, 5100)  # the UI's own, and those to take if others have it
SQLITE = "sqlite:///"


def browse(uri: str, page: str) -> list[str]:
    """Lines that can be copied as they are: paths as seen from here, and a port that nobody uses."""
    if uri.startswith("http"):
        return [f"browse: {uri.rstrip('/')}/{page}"]
    port = next(filter(is_free, PORTS), PORTS[0])
    if uri.startswith(SQLITE):
        uri = SQLITE + from_here(uri.removeprefix(SQLITE))
    command = f"browse: {_mlflow()} ui --backend-store-uri {shlex.quote(uri)}"
    command += "" if port == PORTS[0] else f" --port {port}"
    return [command, f"  then: http://127.0.0.1:{port}/{page}"]


def _mlflow() -> str:
    """By its name only if the shell finds that of this Python."""
    here = Path(sys.executable)
    found = shutil.which("mlflow")
    if found and Path(found).parent == here.parent:
        return "mlflow"
    return f"{shlex.quote(from_here(sys.executable))} -m mlflow"


def from_here(path: str | Path) -> str:
    """As one would type it in this folder."""
    below = os.path.relpath(path)
    return str(path) if below.startswith(os.pardir) else below


def is_free(port: int) -> bool:
    """Whether a server on this machine may have it."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
