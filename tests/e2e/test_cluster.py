"""A real cluster of several hosts on this machine, from `ray up` to `ray down`: closed, and not shaken by a lost host.

The hosts are network namespaces (see hosts.py), the cluster's file is cluster/onprem.yaml without its container.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import yaml
from commands import call, call_forked, environment
from hosts import Host, Network, network, require, run, wait_for
from mlflow import MlflowClient
from own_plugins import SPACE as OWN_SPACE
from own_plugins import forget, write_benchmark, write_package
from searches import PLANNED, TRIALS, Undisturbed, epochs_saved, selected_in, write_space

from co2l.api import run_training
from co2l.cluster import check, reach
from co2l.imports import use_given

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 600  # seconds for steps that take a few on a quiet machine


class Cluster:
    def __init__(self, net: Network) -> None:
        self.net, self.laptop, self.file = net, net.folder / "laptop", net.folder / "cluster.yaml"
        self.token = self.laptop / ".ray" / "auth_token"
        self.token.parent.mkdir(parents=True)
        self.token.write_text(os.urandom(32).hex())
        installed = f"{REPOSITORY}:{write_package(net.folder / 'site', benchmark=False)}"
        shared = {"CO2L_STORE": net.folder / "shared" / "store", "CO2L_DATA": net.folder / "shared" / "data"}
        net.variables = {**shared, "PYTHONPATH": installed}
        self.head, *self.workers = (net.add() for _ in range(3))
        self.spare = net.plan()  # in the file, but switched off

    def environment(self, **changes: str) -> dict[str, str]:
        ours = {"HOME": str(self.laptop), "RAY_TMPDIR": str(self.laptop), "RAY_AUTH_MODE": "token"}
        return environment(**{**ours, "PYTHONPATH": str(self.net.variables["PYTHONPATH"]), **changes})

    def write(self) -> None:
        config = yaml.safe_load((REPOSITORY / "cluster" / "onprem.yaml").read_text())
        del config["docker"]  # the hosts have the package already, as the image would bring it
        config["cluster_name"] = self.net.name
        hosts = [*self.workers, self.spare]
        config["provider"].update(head_ip=self.head.ip, worker_ips=[worker.ip for worker in hosts])
        config["auth"] = {"ssh_user": "root", "ssh_private_key": str(self.net.folder / "key")}
        config["file_mounts"] = {"~/.ray/auth_token": str(self.token)}
        self.file.write_text(yaml.safe_dump(config))

    def ray(self, *words: str) -> str:
        done = subprocess.run(
            [Path(sys.executable).with_name("ray"), *words],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def on_head(self, command: str) -> str:
        done = subprocess.run([*self.head.ssh(), command], capture_output=True, text=True, timeout=120, check=False)
        return done.stdout

    def workers_alive(self) -> int:
        """As the head's dashboard counts them."""
        ask = 'curl -s -H "Authorization: Bearer $(cat ~/.ray/auth_token)" http://127.0.0.1:8265/nodes?view=summary'
        try:
            nodes = [node["raylet"] for node in json.loads(self.on_head(ask))["data"]["summary"]]
        except (ValueError, KeyError):  # it does not answer yet
            return 0
        return sum(node.get("state") == "ALIVE" and not node.get("isHeadNode") for node in nodes)

    def tune(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return call_forked("co2l.tune", *words, cwd=self.net.folder, **self.environment(**changes))

    def tune_as_typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """In a new Python, which reads its variables and finds packages before anything is imported."""
        return call("co2l.tune", *words, cwd=self.net.folder, **self.environment())

    def wrong(self, address: str | None = None, **changes: Any) -> list[str]:
        """What the check finds wrong outside the file, some of whose values are changed."""
        config = yaml.safe_load(self.file.read_text())
        config["provider"]["worker_ips"] = [worker.ip for worker in self.workers]  # those that are on
        for name, values in changes.items():
            config[name] = {**config[name], **values}
        file = self.net.folder / "changed.yaml"
        file.write_text(yaml.safe_dump(config))
        found = reach.findings(check.read(file), None, address)
        return [each.text for each in found if each.state == "wrong"]

    def database(self, name: str) -> sqlalchemy.Engine:
        """The head's Postgres has no port, but its socket is a file that root may open."""
        return sqlalchemy.create_engine(f"postgresql+psycopg://co2l@/{name}?host={self.head.folder}/home/co2l/postgres")

    @contextmanager
    def forwarded(self, port: int) -> Iterator[str]:
        """A port of the head's loopback brought here, as `ray dashboard` does."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            here = free.getsockname()[1]
        tunnel = subprocess.Popen([*self.head.ssh("-N", "-L", f"127.0.0.1:{here}:127.0.0.1:{port}")])
        try:
            wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", here)) == 0, 30)
            yield f"http://127.0.0.1:{here}"
        finally:
            tunnel.kill()
            tunnel.wait()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    require()
    with network() as net:
        made = Cluster(net)
        made.write()
        made.ray("up", "-y", "--no-config-cache", str(made.file))
        wait_for(lambda: made.workers_alive() == 2, PATIENCE)
        yield made
        made.ray("down", "-y", str(made.file))
        for host in made.net.hosts:
            if host.sshd is not None and host.sshd.poll() is None:
                wait_for(lambda host=host: "raylet" not in processes(host), PATIENCE)  # type: ignore[misc]


@pytest.fixture(scope="module")
def plugged(cluster: Cluster) -> Iterator[Future[subprocess.CompletedProcess[str]]]:
    """A search with plug-ins, submitted and followed while other tests wait for something else."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit(search_with_plugins, cluster)


def search_with_plugins(cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """Its method is in a package that all hosts have, its benchmark in a file that none has once it is submitted."""
    (cluster.net.folder / "with_plugins.yaml").write_text(yaml.safe_dump(OWN_SPACE))
    file, store = write_benchmark(cluster.laptop), cluster.net.folder / "shared" / "other_store"
    search = ["--space", "with_plugins.yaml", "--import", str(file), "--store", str(store)]
    with cluster.forwarded(8265) as address:
        submitted = cluster.tune_as_typed(*search, "--submit", address)
        file.unlink()
        if submitted.returncode != 0:
            return submitted
        return cluster.tune_as_typed("--follow", "with_plugins", "--submit", address)


def status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def results(engine: sqlalchemy.Engine, study: str = "small") -> dict[str, dict[str, Any]]:
    """By trial: what its attempts came to, straight from the database."""
    query = (
        "select trial_id, key, value_json from trial_user_attributes join trials using (trial_id)"
        f" join studies using (study_id) where study_name = '{study}' and key in ('trial', 'so_far')"
    )
    trials: dict[int, dict[str, Any]] = {}
    try:
        with engine.connect() as connection:
            for trial, key, value in connection.execute(sqlalchemy.text(query)):
                trials.setdefault(trial, {})[key] = json.loads(value)
    except sqlalchemy.exc.DatabaseError:  # the tables are made with the first search
        return {}
    finally:
        engine.dispose()
    return {trial["trial"]: trial["so_far"] for trial in trials.values() if trial.get("so_far", {}).get("result")}


@pytest.mark.timeout(1800)
def test_the_check_finds_what_is_wrong_with_hosts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    here, (first, second) = importlib.metadata.version("ray"), cluster.workers
    store = cluster.net.variables["CO2L_STORE"]
    monkeypatch.setenv("CO2L_STORE", str(store))
    assert cluster.wrong() == []
    assert not list(Path(str(store)).iterdir()), "the check leaves something behind"
    other = cluster.net.folder / "other_key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other)
    refused = [f"{host.ip} does not accept {other} for root" for host in (cluster.head, first, second)]
    assert cluster.wrong(auth={"ssh_private_key": str(other)}) == refused
    (line,) = cluster.wrong(provider={"worker_ips": [first.ip, cluster.spare.ip]})
    assert line.startswith(f"{cluster.spare.ip} cannot be reached by SSH (")
    assert "\n" not in line
    login = second.folder / "home" / ".bashrc"
    before = login.read_text()
    installed = second.folder / "old" / "ray-2.55.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.55.0\n")
    login.write_text(f"{before}export PYTHONPATH={installed.parent}:$PYTHONPATH\n")
    assert cluster.wrong() == [f"{second.ip} has Ray 2.55.0, this machine has {here}; they must match"]
    login.write_text(before)
    monkeypatch.setenv("CO2L_STORE", f"{cluster.file}/store")  # below a file
    hosts = (cluster.head, first, second)
    assert cluster.wrong() == [f"{host.ip} cannot write to {cluster.file}/store" for host in hosts]


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("plugged")
def test_closed_without_token_or_password(cluster: Cluster) -> None:
    token = cluster.token.read_text()
    with cluster.forwarded(8265) as dashboard:
        for path in ("/api/version", "/api/jobs/", "/nodes?view=summary"):
            assert status(dashboard + path) == 401
            assert status(dashboard + path, Authorization="Bearer " + "0" * 64) == 403
            assert status(dashboard + path, Authorization=f"Bearer {token}") == 200
        other = cluster.net.folder / "other_token"
        other.write_text("f" * 64)
        for changes, reason in (
            ({"RAY_AUTH_MODE": "disabled"}, "requires a token"),
            ({"RAY_AUTH_TOKEN_PATH": str(other)}, "has another token"),
        ):
            refused = cluster.tune("--follow", "any", "--submit", dashboard, **changes)
            assert refused.returncode == 2
            (line,) = [line for line in refused.stderr.splitlines() if line.startswith("co2l: ")]
            assert reason in line
        assert cluster.wrong(dashboard) == []
        mounted = {"~/.ray/auth_token": str(other)}
        (line,) = cluster.wrong(dashboard, file_mounts=mounted)
        assert line.startswith(f"{dashboard} has another token than this machine; ")
    with cluster.forwarded(5000) as mlflow:
        search = f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=1"
        assert status(f"{mlflow}/health") == 200
        assert status(search) == 401
        assert status(search, Authorization="Basic Y28ybDp3cm9uZy1wYXNzd29yZA==") == 401
    for port in (5000, 5432, 8265):  # they listen on the head's loopback or not at all
        assert socket.socket().connect_ex((cluster.head.ip, port)) != 0
    inside = "import ray; ray.init('auto', logging_level=50); print('INSIDE')"
    newer = "import ray, co2l.search.running.engine as e; ray.__version__ = '2.55.0'; e.connected('auto').__enter__()"
    attempts = [
        f'{variables} timeout 100 python -c "{program}" 2>&1'
        for variables, program in (
            ("RAY_AUTH_MODE=disabled", inside),
            ("RAY_AUTH_MODE=token RAY_AUTH_TOKEN=" + "f" * 64, inside),
            ("RAY_AUTH_MODE=token", inside),
            ("RAY_AUTH_MODE=token", newer),
        )
    ]
    with ThreadPoolExecutor() as pool:  # a refused one tries again for twenty seconds
        without, other_one, right, unequal = pool.map(cluster.on_head, attempts)
    assert "INSIDE" not in without
    assert "INSIDE" not in other_one
    assert "INSIDE" in right
    (reason,) = [line for line in unequal.splitlines() if "Version mismatch" in line and "co2l" in line]
    assert f"Ray: {importlib.metadata.version('ray')}" in reason
    assert "Ray: 2.55.0" in reason


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("undisturbed")  # which the next test needs, and which is searched meanwhile
def test_plug_ins_reach_every_host(
    cluster: Cluster,
    plugged: Future[subprocess.CompletedProcess[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bits under the same keys as here, where everything is."""
    followed = plugged.result()
    assert followed.returncode == 0, followed.stdout + followed.stderr
    found = results(cluster.database("co2l"), "with_plugins")
    monkeypatch.syspath_prepend(str(cluster.net.folder / "site"))
    forget()
    use_given([str(write_benchmark(tmp_path))])
    try:
        here = [
            run_training("stripes", "weighted", {**OWN_SPACE["settings"], "weight": weight}, root=tmp_path, quiet=True)
            for weight in OWN_SPACE["axes"]["weight"]
        ]
    finally:
        forget()
    assert {trial: each["result"] for trial, each in found.items()} == {
        each.config.key: each.result.as_dict() for each in here
    }


@pytest.mark.timeout(1800)
def test_a_search_outlives_a_stop_and_a_lost_host(cluster: Cluster, undisturbed: Undisturbed, tmp_path: Path) -> None:
    write_space(cluster.net.folder)
    search = ["--space", "small.yaml", "--max-concurrent", "2", "--save-every", "0.1"]
    with cluster.forwarded(8265) as address:
        slowly = ["--max-concurrent", "1"]  # else all of them could end before the stop arrives
        submitted = cluster.tune(*search, *slowly, "--submit", address)
        assert submitted.returncode == 0, submitted.stderr
        assert "--follow small" in submitted.stdout
        twice = cluster.tune(*search, "--submit", address)
        assert twice.returncode == 2
        assert "is already running" in twice.stderr
        wait_for(lambda: len(results(cluster.database("co2l"))) >= 1, PATIENCE)

        stopped = cluster.tune_as_typed("--stop", "small", "--submit", address)
        assert stopped.returncode == 0, stopped.stderr
        assert "submit it again to continue" in stopped.stdout
        followed = cluster.tune("--follow", "small", "--submit", address)  # to its end
        assert followed.returncode == 130, followed.stdout + followed.stderr
        done = len(results(cluster.database("co2l")))
        assert f"{TRIALS - done} trials are left" in followed.stdout
        assert "small has already ended" in cluster.tune("--stop", "small", "--submit", address).stdout
        unknown = cluster.tune("--stop", "smal", "--submit", address)
        assert unknown.returncode == 2
        assert "there are: small" in unknown.stderr
        assert cluster.tune(*search, "--submit", address).returncode == 0
        wait_for(lambda: len(results(cluster.database("co2l"))) > done, PATIENCE)

        secrets = secrets_of(cluster)
        assert_no_trial_knows(secrets, cluster)
        lost = busiest(cluster)
        lost.cut_off()
        lost.kill()
        saved = epochs_saved(Path(str(cluster.net.variables["CO2L_STORE"])), cluster.net.folder / "small.yaml")
        cluster.workers.remove(lost)
        cluster.spare.start()
        followed = cluster.tune("--follow", "small", "--submit", address)
        assert followed.returncode == 0, followed.stdout + followed.stderr
        assert "trials are left" not in followed.stdout
        assert "wait for MLflow" not in followed.stdout
        wait_for(lambda: cluster.workers_alive() == 2, PATIENCE)
    cluster.ray("rsync-down", str(cluster.file), "~/co2l/searches/", str(tmp_path / "searches"))

    there = results(cluster.database("co2l"))
    assert {trial: each["result"] for trial, each in there.items()} == undisturbed.scores
    assert selected_in(tmp_path / "searches") == selected_in(undisturbed.root)
    gone = {trial: each["furthest_epoch"] for trial, each in there.items() if "machine was lost" in each["reason"]}
    assert gone
    again = {
        trial: max(0, furthest - saved[trial]) for trial, furthest in gone.items()
    }  # what came after its last state
    assert sum(each["cost"]["epochs_trained"] for each in there.values()) <= PLANNED + sum(again.values())

    with cluster.forwarded(5000) as mlflow, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", "co2l")
        patch.setenv("MLFLOW_TRACKING_PASSWORD", secrets["MLFLOW_TRACKING_PASSWORD"])
        client = MlflowClient(mlflow)
        experiment = client.get_experiment_by_name("co2l/seq_digits")
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id])
        children = [run for run in runs if run.data.tags["co2l.kind"] == "trial"]
        assert sorted(run.data.tags["co2l.trial"] for run in children) == sorted(there)
        assert {run.info.run_name: run.data.tags for run in runs if run.info.status != "FINISHED"} == {}
        score = {run.data.tags["co2l.trial"]: run.data.metrics["val/score"] for run in children}
        assert score == {trial: round(each["result"]["score"], 2) for trial, each in there.items()}


def busiest(cluster: Cluster) -> Host:
    """The worker host with most trials."""
    return max(cluster.workers, key=lambda host: processes(host).count("ray::ResourceTrainable"))  # Tune's name for it


def processes(host: Host) -> str:
    return subprocess.run([*host.ssh(), "ps ax"], capture_output=True, text=True, check=True).stdout


def secrets_of(cluster: Cluster) -> dict[str, str]:
    lines = (cluster.head.folder / "home" / "co2l" / "driver.env").read_text().splitlines()
    return {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines)}


def assert_no_trial_knows(secrets: dict[str, str], cluster: Cluster) -> None:
    """Nothing in the environment of any process of a worker host is one of the head's secrets."""
    looked = 0
    for host in cluster.workers:
        assert host.sshd is not None
        inside = subprocess.run(
            [*f"nsenter --target {first_process(host)} --pid --mount sh -c".split(), "cat /proc/[0-9]*/environ"],
            capture_output=True,
            check=False,
        ).stdout
        looked += inside.count(b"RAY_")
        for name in ("MLFLOW_TRACKING_PASSWORD", "CO2L_STORAGE"):
            assert secrets[name].encode() not in inside, f"{name} is known on a worker"
    assert looked


def first_process(host: Host) -> int:
    """The sshd that is process 1 of the host, by its number out here."""
    assert host.sshd is not None
    pid = host.sshd.pid
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
        if Path(f"/proc/{pid}/comm").read_text().strip() == "sshd":
            break
    return pid
