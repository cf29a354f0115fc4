"""How many trials fit on the cluster's nodes, or on those that it can still start."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
import yaml

from co2l.errors import Co2lError
from co2l.files import user_path

JOIN_SECONDS = 120.0  # for the first workers of a cluster that has just been started
LAUNCHED_BY = Path("~/ray_bootstrap_config.yaml")  # what `ray up` leaves on a head, where drivers run

Resources = Mapping[str, Any]


def check_resources(
    cpus: float, gpus: float, wait: float = 0.0, asked_to_stop: Callable[[], bool] = lambda: False
) -> None:
    """Wait this many seconds for a node that fits, unless the autoscaler can start one; then say what is wrong.

    Ray would let a trial that fits nowhere wait forever.
    """
    until = time.monotonic() + wait
    while True:
        possible = [*_alive(), *launchable(LAUNCHED_BY)]
        if any(held(node, cpus, gpus) for node in possible) or asked_to_stop():
            return
        if time.monotonic() >= until:
            break
        time.sleep(1)
    best: Resources = max(possible, key=lambda node: (node.get("GPU", 0), node.get("CPU", 0)), default={})
    raise Co2lError(
        f"a trial needs {cpus:g} CPUs and {gpus:g} GPUs, and no node has that"
        f" (the largest has {best.get('CPU', 0):g} and {best.get('GPU', 0):g})",
        where="resources",
        fix="lower --cpus-per-trial and --gpus-per-trial",
    )


def slots(cpus: float, gpus: float) -> int:
    """How many trials run at once on the nodes that are there, or on all that the autoscaler may start."""
    groups = _alive(), launchable(LAUNCHED_BY)
    return max(sum(held(node, cpus, gpus) for node in nodes) for nodes in groups)


def held(node: Resources, cpus: float, gpus: float) -> int:
    """The trials that a node holds at once."""
    wanted = {"CPU": cpus, "GPU": gpus}
    return int(min(node.get(name, 0) / amount for name, amount in wanted.items() if amount))


def launchable(config: Path) -> list[Resources]:
    """The resources of each node that the cluster's autoscaler may start."""
    try:
        launched = yaml.safe_load(user_path(config).read_text())
        types = launched["available_node_types"].values()
        nodes = [each["resources"] for each in types for _ in range(each.get("max_workers", 0))]
        return nodes[: launched.get("max_workers")]
    except (Co2lError, OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return []


def _alive() -> list[Resources]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
