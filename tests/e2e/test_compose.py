"""What docker-compose.yml would start, started as plain processes on a host of its own: same commands, same variables.

Only what a container brings is replaced: folders are the test's, and Postgres is Debian's with compose's user and
password, as the official image sets it up.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hosts import Host, network, require, wait_for

FILE = Path(__file__).parents[2] / "docker-compose.yml"
PATIENCE = 600
SPACE = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 2, "E_t": 1, "probe_epochs": 5, "buffer_size": 20},
    "axes": {"eta": [0.005, 0.01]},
}


class Composed:
    """A host on which services run as compose would run them."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.folder = host, folder
        self.services: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
        self.secrets = {name: os.urandom(16).hex() for name in re.findall(r"\$\{(\w+):\?", FILE.read_text())}
        for name in ("mlflow", "searches", "store", "data"):
            (folder / name).mkdir()

    def command(self, name: str, *arguments: str) -> str:
        """The service's own words, with its variables before them."""
        service = self.services[name]
        variables = {key: self._here(value) for key, value in service["environment"].items()}
        words = service.get("entrypoint") or service["command"]
        assignments = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())
        return f"env {assignments} {self._here(words)} {shlex.join(arguments)}"

    def _here(self, text: str) -> str:
        text = re.sub(r"\$\{(\w+):[?-][^}]*\}", lambda found: self.secrets.get(found[1], ""), text)
        return re.sub(r"(?<![\w/])/(mlflow|searches|store|data)\b", lambda found: f"{self.folder}/{found[1]}", text)

    def start(self, name: str) -> None:
        log = self.folder / f"{name}.log"
        run = f"cd {self.folder} && nohup {self.command(name)} > {log} 2>&1 < /dev/null &"
        subprocess.run([*self.host.ssh(), run], check=True, timeout=60)

    def healthy(self, name: str) -> bool:
        """By the service's own health check."""
        variables = self.command(name).split(self._here(self.services[name]["command"]))[0]
        test = f"{variables} {self.services[name]['healthcheck']['test']}"
        return subprocess.run([*self.host.ssh(), test], capture_output=True, check=False).returncode == 0

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        words = [*self.host.ssh(), f"cd {self.folder} && {command}"]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def composed() -> Iterator[Composed]:
    require()
    with network() as net:
        folder = net.folder / "c"
        folder.mkdir()
        yield Composed(net.add("head", "mlflow", "postgres"), folder)


def start_postgres(composed: Composed) -> None:
    given = {key: composed._here(value) for key, value in composed.services["postgres"]["environment"].items()}
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    data = composed.folder / "postgres"
    data.mkdir()
    (data / "password").write_text(given["POSTGRES_PASSWORD"])
    subprocess.run(["chown", "-R", "postgres", str(data)], check=True)
    made = f"{programs}/initdb -D {data}/data -U {given['POSTGRES_USER']} --pwfile={data}/password --auth=scram-sha-256"
    options = f"-c listen_addresses={composed.host.ip} -c unix_socket_directories={data}"
    started = f"{programs}/pg_ctl -D {data}/data -l {data}/log -w -o '{options}' start > /dev/null 2>&1"
    for command in (made, started):
        done = composed.call(f"cd / && runuser -u postgres -- {command}")
        assert done.returncode == 0, done.stderr
    create = f"PGPASSWORD={given['POSTGRES_PASSWORD']} {programs}/createdb -h postgres -U co2l {given['POSTGRES_DB']}"
    assert composed.call(create).returncode == 0


@pytest.mark.timeout(1800)
def test_every_service_starts_and_a_search_runs(composed: Composed) -> None:
    (composed.folder / "small.yaml").write_text(yaml.safe_dump(SPACE))
    start_postgres(composed)
    for name in ("mlflow", "head"):
        composed.start(name)
        wait_for(lambda name=name: composed.healthy(name), PATIENCE)  # type: ignore[misc]
    composed.start("worker")
    submitted = composed.call(composed.command("tune", "--space", "small.yaml", "--submit"))
    assert submitted.returncode == 0, submitted.stderr
    followed = composed.call(composed.command("tune", "--follow", "small"))
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "selected on validation data: small" in followed.stdout
    assert list((composed.folder / "store").rglob("*.json"))
    assert (composed.folder / "searches" / "selected" / "small.yaml").is_file()
    query = "import os, mlflow; c = mlflow.MlflowClient('http://mlflow:5000'); print('RUNS', len(c.search_runs("
    query += "[e.experiment_id for e in c.search_experiments()])))"
    variables = composed.command("head").partition(" ray start")[0]
    seen = composed.call(f"{variables} {shlex.quote(sys.executable)} -c {shlex.quote(query)}")
    assert "RUNS 3" in seen.stdout, seen.stderr  # the study and its two cells
    unknown = composed.call(f"{shlex.quote(sys.executable)} -c {shlex.quote(query)}")
    assert "RUNS" not in unknown.stdout
