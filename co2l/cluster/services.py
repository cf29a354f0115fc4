"""What runs on a head beside Ray: Postgres for the record of searches, and an MLflow server behind a password.

Both are closed to the network: Postgres has no port, MLflow listens on loopback. The password is made here and
stays here, in `driver.env`, which `ray start` reads on the head only; so drivers know it and trials do not.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from co2l.browse import is_free
from co2l.cluster import postgres
from co2l.errors import Co2lError

START_SECONDS = 300.0


def serve(folder: Path, port: int) -> Path:
    """Start what does not run yet, and say in which file drivers find the way to it."""
    address = f"http://127.0.0.1:{port}"
    if not healthy(address) and not is_free(port):
        raise Co2lError("another program uses this port", where=f"127.0.0.1:{port}", fix="give another one with --port")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)
    postgres.start(folder / "postgres")
    study, mlflow = (postgres.url(folder / "postgres", name) for name in ("co2l", "mlflow"))
    postgres.ensure_database(study)
    server = _kept(
        folder / "mlflow.env",
        {
            "CO2L_MLFLOW_DATABASE": mlflow,
            "MLFLOW_AUTH_ADMIN_USERNAME": "co2l",
            "MLFLOW_AUTH_ADMIN_PASSWORD": secrets.token_urlsafe(24),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_urlsafe(32),
        },
    )
    driver = {
        "CO2L_STORAGE": study,
        "CO2L_TRACKING_URI": address,
        "MLFLOW_TRACKING_USERNAME": server["MLFLOW_AUTH_ADMIN_USERNAME"],
        "MLFLOW_TRACKING_PASSWORD": server["MLFLOW_AUTH_ADMIN_PASSWORD"],
    }
    _write(folder / "driver.env", _as_shell(driver))
    if not healthy(address):
        log = folder / "mlflow.log"
        options = ["--host", "127.0.0.1", "--port", str(port), "--artifacts", str(folder / "artifacts")]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "co2l.cluster", "mlflow", *options],
                env={**os.environ, **server},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                start_new_session=True,  # it outlives the shell that sets up the head
            )
        _await(address, process, log)
    return folder / "driver.env"


def run_mlflow(host: str, port: int, artifacts: str, allowed_hosts: str, folder: Path) -> int:
    """Become an MLflow server with basic authentication; database and secrets come from the environment."""
    needed = ("CO2L_MLFLOW_DATABASE", "MLFLOW_AUTH_ADMIN_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY")
    if missing := [name for name in needed if not os.environ.get(name)]:
        raise Co2lError(f"not set: {', '.join(missing)}", where="environment", fix="see .env.example")
    if len(os.environ["MLFLOW_AUTH_ADMIN_PASSWORD"]) < 12:
        raise Co2lError("the password is too short", where="MLFLOW_AUTH_ADMIN_PASSWORD", fix="give 12 or more letters")
    database = os.environ["CO2L_MLFLOW_DATABASE"]
    postgres.ensure_database(database)
    config = folder / "mlflow-auth.ini"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["[mlflow]", "default_permission = NO_PERMISSIONS", "admin_username = co2l"]
    _write(config, "\n".join([*lines, f"database_uri = {database.replace('%', '%%')}", ""]))
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth"]
    command += ["--workers", "1"]  # several are restarted for ever on a host too busy to load them in five seconds
    command += ["--host", host, "--port", str(port), "--backend-store-uri", database]
    command += ["--artifacts-destination", artifacts]
    command += ["--allowed-hosts", allowed_hosts or "127.0.0.1:*,localhost:*"]  # a forwarded port may have any number
    ours = {
        "MLFLOW_AUTH_CONFIG_PATH": str(config),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes for what no search asks for
    }
    os.execve(sys.executable, command, {**os.environ, **ours})


def healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not healthy(address):
        if process.poll() is not None or time.monotonic() > until:
            raise Co2lError("MLflow did not start", where=address, fix=f"see {log}")
        time.sleep(0.3)


def _kept(path: Path, new: dict[str, str]) -> dict[str, str]:
    """The variables in the file, made at the first time and the same ever after."""
    if not path.is_file():
        _write(path, _as_shell(new))
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: shlex.split(value)[0] for name, _, value in pairs}


def _as_shell(variables: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def _write(path: Path, secret: str) -> None:
    path.touch(0o600)  # before anything is in it
    path.write_text(secret)
