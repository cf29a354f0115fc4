"""Ray on one node of a Slurm job: on ports that are free, behind the search's token, in a private folder.

`ray symmetric-run` starts Ray on all nodes at once, but refuses to start beside another Ray and stops every Ray of its
user in the end; so two searches could not share a node. Here each has its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from co2l.errors import Co2lError, headline
from co2l.search.running.leaving import VARIABLE as NODE_FOLDER

START_SECONDS, END_SECONDS = 300.0, 15.0
CONNECT_SECONDS = 5.0
OBJECTS = 200_000_000  # bytes of Ray's object store: trials keep nothing there
ADDRESS_FILE = "ray_current_cluster"  # in which `ray start` leaves the head's address
DRIVERS_OWN = ("CO2L_STORAGE", "CO2L_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
WITHOUT = ["--include-dashboard=false", "--no-monitor"]  # the latter listens on a fixed port, without a token
ANY_PORT = ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_START_HOOK": f"{__name__}.without_client_server",
    "RAY_enable_metrics_collection": "0",  # a page for everybody, on all interfaces
    "DASHBOARD_METRIC_PORT": "-1",  # another one; there is no such port, so Ray goes on without it
    "RAY_memory_monitor_refresh_ms": "0",  # it counts what others use on a shared node; Slurm has its own limit
    "RAY_raylet_start_wait_time_s": f"{START_SECONDS:.0f}",  # imports from a shared disk may take minutes
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # after which a node without a head ends itself
}


@dataclass(frozen=True)
class Resources:
    """What of the node belongs to this job."""

    cpus: int
    gpus: int


def allocated() -> Resources:
    """What Slurm says; Ray would count what the machine has."""
    listed = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each not in ("", "NoDevFiles")]
    return Resources(
        int(os.environ.get("SLURM_CPUS_ON_NODE") or 1), int(os.environ.get("SLURM_GPUS_ON_NODE") or len(listed))
    )


def own_address() -> str:
    """The address at which other nodes reach this one."""
    with contextlib.suppress(OSError):
        named = socket.gethostbyname(os.environ.get("SLURMD_NODENAME") or socket.gethostname())
        if not named.startswith("127."):
            return named
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way, contextlib.suppress(OSError):
        way.connect(("192.0.2.1", 9))  # sends nothing, and only looks which interface leads out
        return str(way.getsockname()[0])
    return "127.0.0.1"


@dataclass(frozen=True)
class RayNode:
    address: str  # of the head
    process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None and reachable(self.address)


@contextlib.contextmanager
def ray_node(folder: Path, resources: Resources, token: str, head: str | None) -> Iterator[RayNode]:
    """Ray on this node for the time of the block: a worker of the given head, or the head itself."""
    kept, log = folder / "r", folder / "ray.log"
    words = ["--head", "--port=0", *WITHOUT] if head is None else [f"--address={head}"]
    words += [*ANY_PORT, f"--node-ip-address={own_address()}", f"--temp-dir={kept}", "--include-log-monitor=false"]
    words += [f"--num-cpus={resources.cpus}", f"--num-gpus={resources.gpus}", f"--object-store-memory={OBJECTS}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**_environment(), "RAY_AUTH_TOKEN": token, NODE_FOLDER: str(folder)},
            start_new_session=True,  # a signal to our process group is not for Ray
        )
    try:
        yield RayNode(_started(process, kept / ADDRESS_FILE, log), process)
    finally:
        _end(process)


def without_client_server(parameters: Any, _is_head: bool) -> None:
    """`ray start` calls it before it starts anything; no flag leaves out the server for clients, on a fixed port."""
    parameters.ray_client_server_port = None


def _environment() -> dict[str, str]:
    """Trials get to know no password. They import this package from the same files as we do."""
    ours = {name: value for name, value in os.environ.items() if name not in DRIVERS_OWN}
    ours.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)  # with which we keep a local Ray on loopback
    ours.pop("RAY_ADDRESS", None)
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**ours, **SETTINGS, "PYTHONPATH": path}


def _started(process: subprocess.Popen[bytes], written: Path, log: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            if address := written.read_text().strip():
                return address
        time.sleep(0.1)
    reason = (log.read_text(errors="replace").strip().splitlines() or ["its processes ended"])[-1]
    raise Co2lError(f"Ray did not start ({headline(reason)})", where=socket.gethostname())


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()  # on which it ends all that it has started
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def reachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
