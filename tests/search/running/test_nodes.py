"""How many trials a cluster holds: the nodes that are there, or those that the autoscaler may start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from co2l.search.running import nodes

GPU_CLUSTER = Path(__file__).resolve().parents[3] / "cluster" / "gpu.yaml"  # up to 8 workers of 8 cores and a GPU


@pytest.mark.parametrize(
    ("node", "cpus", "gpus", "expected"),
    [
        ({"CPU": 8, "GPU": 1}, 1, 1, 1),
        ({"CPU": 8, "GPU": 1}, 2, 0.25, 4),
        ({"CPU": 8, "GPU": 4}, 4, 1, 2),
        ({"CPU": 8}, 3, 0, 2),
        ({"CPU": 8}, 1, 0.5, 0),
        ({}, 1, 0, 0),
    ],
)
def test_what_a_node_holds(node: dict[str, float], cpus: float, gpus: float, expected: int) -> None:
    assert nodes.held(node, cpus, gpus) == expected


def test_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[dict[str, Any]] = [
        {"Alive": True, "Resources": {"CPU": 2.0}},
        {"Alive": True, "Resources": {"CPU": 3.0}},
        {"Alive": False, "Resources": {"CPU": 64.0}},
    ]
    monkeypatch.setattr(nodes.ray, "nodes", lambda: here)
    monkeypatch.setattr(nodes, "LAUNCHED_BY", tmp_path / "config.yaml")
    assert nodes.slots(1, 0) == 5
    assert nodes.slots(2, 0) == 2
    assert nodes.slots(1, 1) == 0
    (tmp_path / "config.yaml").write_text(GPU_CLUSTER.read_text())
    assert nodes.slots(1, 1) == 8
    assert nodes.slots(2, 0) == 32
    fewer = {**yaml.safe_load(GPU_CLUSTER.read_text()), "max_workers": 3}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(fewer))
    assert nodes.slots(1, 0.5) == 6
