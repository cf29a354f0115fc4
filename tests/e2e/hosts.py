"""Several hosts on one machine: each has its own network, its own processes and its own sshd.

A host is a network namespace on a bridge, with a PID namespace whose first process is its sshd; killing that one kills
all of the host's processes. What a login sees (home, Ray's temporary folder) lies in the host's own folder.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SYSTEM = f"{os.environ['PATH']}:/usr/sbin:/sbin"
HURRY = {  # a host that is gone is noticed after seconds, not after half a minute; one that starts slowly is waited for
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1500",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_raylet_start_wait_time_s": "300",
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",  # after which a worker without a head ends itself
}


def require() -> None:
    """Skip, and say why, where hosts cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("hosts on one machine: this needs root")
    for program, package in (
        ("ip", "iproute2"),
        ("sshd", "openssh-server"),
        ("rsync", "rsync"),
        ("curl", "curl"),
        ("wget", "wget"),
        ("unshare", "util-linux"),
    ):
        if shutil.which(program, path=SYSTEM) is None:
            pytest.skip(f"hosts on one machine: {program} is missing (Debian package {package})")
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")) and shutil.which("initdb") is None:
        pytest.skip("hosts on one machine: Postgres is missing (Debian package postgresql)")
    probe = f"co2lprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"hosts on one machine: network namespaces are not allowed here ({made.stderr.strip()})")
    run("ip", "netns", "delete", probe)


def run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


class Host:
    def __init__(self, network: Network, number: int, names: tuple[str, ...]) -> None:
        self.network, self.number, self.names = network, number, names
        self.name = f"{network.name}-{number}"
        self.ip = f"{network.subnet}.{number + 10}"
        self.folder = network.folder / f"h{number}"
        self.link = f"{network.name}v{number}"  # its end of the cable out here
        self.sshd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for name in ("home", "tmp"):
            (self.folder / name).mkdir(parents=True)
        etc = Path("/etc/netns", self.name)  # what `ip netns exec` shows inside as /etc
        etc.mkdir(parents=True, exist_ok=True)
        known = [f"{host.ip} {' '.join(host.names) or host.name}\n" for host in self.network.hosts]
        (etc / "hosts").write_text("".join(["127.0.0.1 localhost\n", *known]))
        _, *others = Path("/etc/passwd").read_text().splitlines(keepends=True)
        (etc / "passwd").write_text(f"root:x:0:0:root:{self.folder}/home:/bin/bash\n{''.join(others)}")
        inside = "eth0"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", inside, "netns", self.name)
        run("ip", "link", "set", self.link, "master", self.network.name, "up")
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{self.ip}/24", "dev", inside],
            ["link", "set", inside, "up"],
            ["route", "add", "default", "via", f"{self.network.subnet}.1"],
        ):
            run("ip", "-n", self.name, *words)
        environment = self._environment()
        exports = "".join(f"export {name}='{value}'\n" for name, value in environment.items())
        (self.folder / "home" / ".bashrc").write_text(exports)  # after a login shell has reset its path
        config = self.folder / "sshd_config"
        sshd = [shutil.which("sshd", path=SYSTEM) or "sshd", "-D", "-e", "-f", str(config)]
        config.write_text(self._sshd_config(environment))
        with (self.folder / "sshd.log").open("wb") as log:
            # a node takes the path of its temporary folder from the head, so each host sees its own under one name
            begin = f"mount --bind {self.folder}/tmp {self.network.folder}/tmp && exec {' '.join(sshd)}"
            unshare = "unshare --pid --fork --kill-child --mount-proc"
            self.sshd = subprocess.Popen(
                [*f"ip netns exec {self.name} {unshare} sh -c".split(), begin],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(lambda: subprocess.run([*self.ssh(), "true"], capture_output=True, check=False).returncode == 0, 30)

    def _environment(self) -> dict[str, object]:
        return {
            "RAY_TMPDIR": self.network.folder / "tmp",
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM}",
            "PYTHONPATH": Path(__file__).parents[2],
            "OMP_NUM_THREADS": "1",
            "GRPC_DNS_RESOLVER": "native",  # the other one asks a name server, and there is none here
            **HURRY,
            **self.network.variables,
        }

    def _sshd_config(self, environment: dict[str, object]) -> str:
        variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
        key = self.network.folder / "key"
        return "\n".join(
            [
                f"ListenAddress {self.ip}:22",
                f"HostKey {self.network.folder / 'host_key'}",
                f"AuthorizedKeysFile {key}.pub",
                f"PidFile {self.folder / 'sshd.pid'}",
                "PermitRootLogin prohibit-password",
                "PasswordAuthentication no",
                "StrictModes no",
                "UsePAM no",
                "PrintMotd no",
                "MaxSessions 50",
                "MaxStartups 100",
                f"SetEnv {variables}",
                "",
            ]
        )

    def ssh(self, *options: str) -> list[str]:
        key = str(self.network.folder / "key")
        settings = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=3"]
        return ["ssh", "-i", key, *(f"-o{setting}" for setting in settings), *options, f"root@{self.ip}"]

    def cut_off(self) -> None:
        """Its link goes down: from now on nobody hears of it, and its processes do not know why."""
        run("ip", "link", "set", self.link, "down")

    def kill(self) -> None:
        """All its processes die at once."""
        if self.sshd is not None and self.sshd.poll() is None:
            os.killpg(self.sshd.pid, signal.SIGKILL)
            self.sshd.wait()

    def remove(self) -> None:
        self.kill()
        subprocess.run(["ip", "link", "delete", self.link], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)
        shutil.rmtree(f"/etc/netns/{self.name}", ignore_errors=True)


def unused() -> int:
    """Of a network: one whose predecessor is still going away, or another test's, keeps its number."""
    taken = run("ip", "-o", "addr") + run("ip", "-o", "link")
    free = [number for number in range(20, 250) if f"co2l{number}" not in taken and f"10.213.{number}." not in taken]
    assert free, "every network of the tests' range is there already"
    return random.choice(free)


class Network:
    """Made by `network`. The test itself stands outside, at the bridge's address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        number = unused()
        self.name, self.subnet = f"co2l{number}", f"10.213.{number}"
        self.hosts: list[Host] = []
        self.variables: dict[str, object] = {}  # of every login

    def plan(self, *names: str) -> Host:
        """One more host, which it and later ones know by these names; it is still off."""
        self.hosts.append(Host(self, len(self.hosts), names))
        return self.hosts[-1]

    def add(self, *names: str) -> Host:
        host = self.plan(*names)
        host.start()
        return host


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """An empty network; everything in it is gone in the end, however that comes."""
    folder = Path(tempfile.mkdtemp(prefix="co2l", dir="/tmp"))  # short: Ray's sockets allow 107 letters
    folder.chmod(0o755)
    made = Network(folder)
    try:
        (folder / "tmp").mkdir()
        Path("/run/sshd").mkdir(exist_ok=True)
        for name in ("key", "host_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        run("ip", "link", "add", made.name, "type", "bridge")
        run("ip", "addr", "add", f"{made.subnet}.1/24", "dev", made.name)
        run("ip", "link", "set", made.name, "up")
        yield made
    finally:
        for host in made.hosts:
            host.remove()
        subprocess.run(["ip", "link", "delete", made.name], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} seconds"
        time.sleep(1)  # to ask takes a login, and often a new Python
