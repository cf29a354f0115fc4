"""Whether some node of the cluster, or one that it can still get, holds a trial: one that none holds waits for ever."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
import yaml

from co2l.errors import Co2lError

JOIN_SECONDS = 120.0  # for the first workers of a cluster that has just been started
LAUNCHED_BY = Path("~/ray_bootstrap_config.yaml")  # what `ray up` leaves on a head, where drivers run

Resources = Mapping[str, Any]


def check_resources(cpus: float, gpus: float, wait: float = 0.0) -> None:
    """Wait for a fitting node for so many seconds, unless the autoscaler can bring one; then say what is wrong."""
    until = time.monotonic() + wait
    while True:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        possible = [*nodes, *launchable(LAUNCHED_BY.expanduser())]
        if any(holds(node, cpus, gpus) for node in possible):
            return
        if time.monotonic() >= until:
            break
        time.sleep(1)
    best: Resources = max(possible, key=lambda node: (node.get("GPU", 0), node.get("CPU", 0)), default={})
    raise Co2lError(
        f"a trial wants {cpus:g} CPUs and {gpus:g} GPUs, and no node has that"
        f" (the largest has {best.get('CPU', 0):g} and {best.get('GPU', 0):g})",
        where="resources",
        fix="lower --cpus-per-trial and --gpus-per-trial",
    )


def holds(node: Resources, cpus: float, gpus: float) -> bool:
    return bool(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus)


def launchable(config: Path) -> list[Resources]:
    """The resources of the node types that the cluster's autoscaler may start."""
    try:
        types = yaml.safe_load(config.read_text())["available_node_types"].values()
        return [each["resources"] for each in types if each.get("max_workers", 0) > 0]
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return []
