"""How to look at tracked runs: the command that starts the MLflow UI here, and the page to open in it."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from pathlib import Path

from co2l.cli.console import by_console_script
from co2l.errors import url_shown
from co2l.urls import sqlite_file, sqlite_url

PORTS = range(5000, 5100)  # the UI's default, and alternatives if it is taken


def browse(uri: str, page: str) -> list[str]:
    """Lines ready to copy: paths as seen from here, and a free port."""
    if uri.startswith("http"):
        return [f"browse: {url_shown(uri.rstrip('/'))}/{page}"]
    port = next(filter(is_free, PORTS), PORTS[0])
    if file := sqlite_file(uri):
        uri = sqlite_url(Path(from_here(file)))
    command = f"browse: {_mlflow()} ui --backend-store-uri {shlex.quote(url_shown(uri))}"
    command += "" if port == PORTS[0] else f" --port {port}"
    return [command, f"  then: http://127.0.0.1:{port}/{page}"]


def _mlflow() -> str:
    return "mlflow" if _shell_finds("mlflow") else f"{python()} -m mlflow"


def python() -> str:
    """This Python, ready to copy: the bare name only if the shell would find this one."""
    return "python" if _shell_finds("python") else shlex.quote(from_here(sys.executable))


def command(name: str) -> str:
    """One of our commands, ready to copy, in the way that this one was typed."""
    if by_console_script():
        script = Path(sys.executable).with_name("co2l")
        return f"co2l {name}" if _shell_finds("co2l") else f"{shlex.quote(from_here(script))} {name}"
    return f"{python()} -m co2l.{name}"


def _shell_finds(name: str) -> bool:
    found = shutil.which(name)
    return found is not None and Path(found).parent == Path(sys.executable).parent


def from_here(path: str | Path) -> str:
    """The path as typed in this folder."""
    below = os.path.relpath(path)
    return str(path) if below.startswith(os.pardir) else below


def is_free(port: int) -> bool:
    """Whether a server on this machine can use the port."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
