"""What docker-compose.yml would start, started as plain processes on two hosts: same commands, same variables.

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
    "axes": {"kappa": [0.1, 0.2]},  # they share the first stage
}


class Composed:
    """Hosts on which services run as compose would run them: the workers' own, and one for all others."""

    def __init__(self, host: Host, workers: Host, folder: Path) -> None:
        self.host, self.workers, self.folder = host, workers, folder
        self.clients: list[subprocess.Popen[bytes]] = []
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
        with (self.folder / f"{name}.log").open("wb") as log:
            host = self.workers if name == "worker" else self.host
            words = [*host.ssh(), f"cd {self.folder} && {self.command(name)}"]
            self.clients.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def leave(self) -> None:
        """The services end with their hosts, but who started them there would wait for a word for ever."""
        for client in self.clients:
            client.kill()
            client.wait()

    def healthy(self, name: str) -> bool:
        """By the service's own health check."""
        variables = self.command(name).split(self._here(self.services[name]["command"]))[0]
        test = self.services[name]["healthcheck"]["test"].replace("$$", "$")
        words = [*self.host.ssh(), f"{variables} sh -c {shlex.quote(test)}"]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        words = [*self.host.ssh(), f"cd {self.folder} && {command}"]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def composed() -> Iterator[Composed]:
    require()
    with network() as net:
        folder = net.folder / "c"
        folder.mkdir()
        made = Composed(net.add("head", "mlflow", "postgres"), net.add(), folder)
        yield made
        made.leave()


def start_postgres(composed: Composed) -> None:
    given = {key: composed._here(value) for key, value in composed.services["postgres"]["environment"].items()}
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    data = composed.folder / "postgres"
    data.mkdir()
    (data / "password").write_text(given["POSTGRES_PASSWORD"])
    subprocess.run(["chown", "-R", "postgres", str(data)], check=True)
    options = "--encoding=UTF8 --locale=C --auth=scram-sha-256"
    made = f"{programs}/initdb -D {data}/data -U {given['POSTGRES_USER']} --pwfile={data}/password {options}"
    listen = f"-c listen_addresses={composed.host.ip} -c unix_socket_directories={data}"
    started = f"{programs}/pg_ctl -D {data}/data -l {data}/log -w -o '{listen}' start > /dev/null 2>&1"
    assert composed.call(f"cd / && runuser -u postgres -- {made}").returncode == 0
    with (data / "data" / "pg_hba.conf").open("a") as rules:
        rules.write("host all all all scram-sha-256\n")
    assert composed.call(f"cd / && runuser -u postgres -- {started}").returncode == 0
    create = f"PGPASSWORD={given['POSTGRES_PASSWORD']} {programs}/createdb -h postgres -U co2l {given['POSTGRES_DB']}"
    assert composed.call(create).returncode == 0


@pytest.mark.timeout(1800)
def test_every_service_starts_and_a_search_runs(composed: Composed) -> None:
    (composed.folder / "small.yaml").write_text(yaml.safe_dump(SPACE))
    start_postgres(composed)
    for name in ("mlflow", "head"):
        composed.start(name)
    for name in ("mlflow", "head"):
        wait_for(lambda name=name: composed.healthy(name), PATIENCE)  # type: ignore[misc]
    composed.start("worker")
    submitted = composed.call(composed.command("tune", "--space", "small.yaml", "--submit"))
    assert submitted.returncode == 0, submitted.stderr
    followed = composed.call(composed.command("tune", "--follow", "small"))
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "selected configurations: " in followed.stdout
    assert list((composed.folder / "store").rglob("*.state"))
    assert (composed.folder / "searches" / "selected" / "small.yaml").is_file()
    query = "import os, mlflow; c = mlflow.MlflowClient('http://mlflow:5000'); print('RUNS', len(c.search_runs("
    query += "[e.experiment_id for e in c.search_experiments()])))"
    variables = composed.command("head").partition(" ray start")[0]
    seen = composed.call(f"{variables} {shlex.quote(sys.executable)} -c {shlex.quote(query)}")
    assert "RUNS 3" in seen.stdout, seen.stderr  # the study and its two trials
    unknown = composed.call(f"{shlex.quote(sys.executable)} -c {shlex.quote(query)}")
    assert "RUNS" not in unknown.stdout
