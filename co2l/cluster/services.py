"""The services on a head: Postgres for the record of searches, and an MLflow server behind a password.

Both are closed to the network: Postgres has no port, MLflow listens on loopback. The password is created here and
stays here, in `driver.env`, which `ray start` reads only on the head; so drivers know it and trials do not.
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

from co2l.cli.browse import is_free
from co2l.cluster import postgres
from co2l.errors import Co2lError
from co2l.files import write_atomic

START_SECONDS = 300.0


def serve(folder: Path, port: int) -> Path:
    """Start what is not running yet, and return the file with the drivers' environment."""
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
        "CO2L_ROOT": str(folder / "searches"),  # a job's working folder belongs to Ray and is temporary
        "CO2L_STORAGE": study,
        "CO2L_TRACKING_URI": address,
        "MLFLOW_TRACKING_USERNAME": server["MLFLOW_AUTH_ADMIN_USERNAME"],
        "MLFLOW_TRACKING_PASSWORD": server["MLFLOW_AUTH_ADMIN_PASSWORD"],
    }
    write_atomic(folder / "driver.env", _as_shell(driver), mode=0o600)
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
                start_new_session=True,  # outlives the shell that sets up the head
            )
        _await(address, process, log)
    return folder / "driver.env"


def run_mlflow(host: str, port: int, artifacts: str, allowed_hosts: str, folder: Path) -> int:
    """Run an MLflow server with basic authentication; database and secrets come from the environment."""
    needed = ("CO2L_MLFLOW_DATABASE", "MLFLOW_AUTH_ADMIN_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY")
    if missing := [name for name in needed if not os.environ.get(name)]:
        raise Co2lError(f"not set: {', '.join(missing)}", where="environment", fix="see .env.example")
    if len(os.environ["MLFLOW_AUTH_ADMIN_PASSWORD"]) < 12:
        fix = "use 12 characters or more"
        raise Co2lError("the password is too short", where="MLFLOW_AUTH_ADMIN_PASSWORD", fix=fix)
    database = os.environ["CO2L_MLFLOW_DATABASE"]
    postgres.ensure_database(database)
    config = folder / "mlflow-auth.ini"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["[mlflow]", "default_permission = NO_PERMISSIONS", "admin_username = co2l"]
    lines += ["auth_cache_ttl_seconds = 60"]  # to check a password takes a tenth of a second, more than most requests
    write_atomic(config, "\n".join([*lines, f"database_uri = {database.replace('%', '%%')}", ""]), mode=0o600)
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth"]
    command += ["--workers", "1"]  # with several, a host too busy to load them in five seconds restarts them forever
    command += ["--host", host, "--port", str(port), "--artifacts-destination", artifacts]
    command += ["--allowed-hosts", allowed_hosts or "127.0.0.1:*,localhost:*"]  # a forwarded port may have any number
    ours = {
        "MLFLOW_BACKEND_STORE_URI": database,  # every user of the machine sees a process's arguments
        "MLFLOW_AUTH_CONFIG_PATH": str(config),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes that no search needs
    }
    os.execve(sys.executable, command, {**os.environ, **ours})


def healthy(address: str) -> bool:
    """Whether MLflow answers on this machine, which no proxy can reach."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address}/health", timeout=5) as answer:
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
    """The variables in the file, created the first time and unchanged afterwards."""
    if not path.is_file():
        write_atomic(path, _as_shell(new), mode=0o600)
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: shlex.split(value)[0] for name, _, value in pairs}


def _as_shell(variables: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())
