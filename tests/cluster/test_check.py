"""python -m co2l.cluster check: everything that would cost money or time is one line, before you pay."""

from __future__ import annotations

import importlib.metadata
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call_here

from co2l.cluster import check, reach
from co2l.cluster.check import Cluster, Finding
from co2l.errors import Co2lError
from co2l.learning.cards import CONTEXT_GIB, SPARE
from co2l.learning.footprint import Footprint
from co2l.search.space.memory import Memory, Need

REPOSITORY = Path(__file__).parents[2]
RAY_FILES = ["cluster/gpu.yaml", "cluster/onprem.yaml"]


def cluster(name: str, folder: Path, **changes: Any) -> Cluster:
    """The shipped file with every value set, and then changed at its top level."""
    text = (REPOSITORY / name).read_text().replace("CHANGE-ME", "mine")
    token = folder / "auth_token"
    token.write_text("0" * 64)
    documents = [dict(each) for each in yaml.safe_load_all(text)]
    if "file_mounts" in documents[0]:
        documents[0]["file_mounts"] = {"~/.ray/auth_token": str(token)}
    documents[0].update(changes)
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return check.read(path)


def wrong(found: Iterator[Finding]) -> dict[str, str]:
    return {each.what: each.text for each in found if each.state == "wrong"}


@pytest.mark.parametrize("name", [*RAY_FILES, "cluster/kuberay.yaml", "docker-compose.yml"])
def test_a_shipped_file_whose_values_are_set_is_right(name: str, tmp_path: Path) -> None:
    assert wrong(check.findings(cluster(name, tmp_path), cpus=1, gpus=0)) == {}


@pytest.mark.parametrize("name", [*RAY_FILES, "cluster/kuberay.yaml"])
def test_values_that_are_not_set_are_named(name: str) -> None:
    assert "CHANGE-ME" in wrong(check.findings(check.read(REPOSITORY / name), cpus=1, gpus=0))["values"]


def test_a_misspelled_key_is_found_by_rays_schema(tmp_path: Path) -> None:
    assert (
        "idle_timeout" in wrong(check.findings(cluster("cluster/gpu.yaml", tmp_path, idle_timeout=5), 1, 0))["schema"]
    )


def test_a_trial_larger_than_every_node_type(tmp_path: Path) -> None:
    found = wrong(check.findings(cluster("cluster/gpu.yaml", tmp_path), cpus=1, gpus=2))
    assert found == {"resources": "a trial of 1 CPUs and 2 GPUs fits none of gpu"}


def test_a_world_that_may_come_in(tmp_path: Path) -> None:
    made = cluster("cluster/gpu.yaml", tmp_path)
    del made.config["available_node_types"]["gpu"]["node_config"]["SecurityGroupIds"]
    assert "SSH of gpu" in wrong(check.findings(made, 1, 0))["ports"]
    composed = cluster("docker-compose.yml", tmp_path)
    composed.config["services"]["postgres"]["ports"] = ["5432:5432"]
    assert "postgres 5432:5432" in wrong(check.findings(composed, 1, 0))["ports"]


def test_a_dashboard_and_a_ray_without_a_token(tmp_path: Path) -> None:
    made = cluster(
        "cluster/onprem.yaml", tmp_path, head_start_ray_commands=["ray start --head --dashboard-host=0.0.0.0"]
    )
    found = wrong(check.findings(made, 1, 0))
    assert "dashboard" in found["ports"]
    assert "RAY_AUTH_MODE" in found["token"]
    assert "head" in found


def test_a_token_that_was_never_made(tmp_path: Path) -> None:
    made = cluster("cluster/gpu.yaml", tmp_path)
    Path(made.config["file_mounts"]["~/.ray/auth_token"]).unlink()
    assert "ray get-auth-token --generate" in wrong(check.findings(made, 1, 0))["token"]


def on(instance: str, folder: Path) -> Cluster:
    """The shipped cluster of AWS with another instance type for its workers."""
    made = cluster("cluster/gpu.yaml", folder)
    made.config["available_node_types"]["gpu"]["node_config"]["InstanceType"] = instance
    return made


def takes(gib: float, gpus: float = 1.0) -> Memory:
    """The memory of a space whose trials take so much of a card."""
    peak = round((gib - CONTEXT_GIB) / (1 + SPARE) * 2**30)
    step = Footprint(0, 0, 0, 0, peak, examples=1, drawn=1, batch=1, kernels=())
    return Memory((Need({"batch_size": 1024}, step),), gpus)


@pytest.mark.parametrize(
    ("instance", "gib", "gpus", "state", "words"),
    [
        ("g5.2xlarge", 21.9, 1, "ok", "takes 21.9 GiB of its share, 22.0 GiB of gpu's a10g"),
        ("g5.2xlarge", 22.1, 1, "wrong", "its share is 22.0 GiB of gpu's a10g; it would fit rtx3090"),
        ("g5.2xlarge", 8, 0.25, "wrong", "a trial of batch_size=1024 takes 8.0 GiB, and its share is 5.5 GiB"),
        ("g6e.2xlarge", 8, 0.25, "ok", "11.1 GiB of gpu's l40s"),
        ("g5.48xlarge", 30, 8, "wrong", "22.0 GiB"),  # eight cards are no larger than one
        ("z9.large", 8, 1, "unknown", "the card of gpu (z9.large) is not known"),
    ],
)
def test_a_trial_must_fit_its_share_of_the_card(
    instance: str, gib: float, gpus: float, state: str, words: str, tmp_path: Path
) -> None:
    made = on(instance, tmp_path)
    made.config["available_node_types"]["gpu"]["resources"]["GPU"] = 8
    (found,) = [each for each in check.findings(made, 1, gpus, takes(gib, gpus)) if each.what == "memory"]
    assert found.state == state
    assert words in found.text


def test_every_node_type_that_a_trial_may_land_on_must_hold_it(tmp_path: Path) -> None:
    made = on("g6e.2xlarge", tmp_path)
    types = made.config["available_node_types"]
    types["small"] = {**types["gpu"], "node_config": {**types["gpu"]["node_config"], "InstanceType": "g5.2xlarge"}}
    states = [each.state for each in check.findings(made, 1, 1, takes(30)) if each.what == "memory"]
    assert states == ["ok", "wrong"]


def test_the_card_of_a_pod_is_known_by_its_nodes_label(tmp_path: Path) -> None:
    made = cluster("cluster/kuberay.yaml", tmp_path)
    assert "no nodeSelector" in {each.what: each.text for each in check.findings(made, 1, 1, takes(30))}["memory"]
    (job,) = [each for each in made.documents if each["kind"] == "RayJob"]
    pod = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]
    for product, state in (("NVIDIA-A100-SXM4-80GB", "ok"), ("Tesla-T4", "wrong")):
        pod["nodeSelector"] = {check.PRODUCT: product}
        assert {each.what: each.state for each in check.findings(made, 1, 1, takes(30))}["memory"] == state


def test_the_check_of_a_space_that_is_too_large(tmp_path: Path) -> None:
    made = on("g4dn.xlarge", tmp_path)
    made.path.write_text(yaml.safe_dump(made.config))
    space = tmp_path / "space.yaml"
    space.write_text("benchmark: r_mnist\naxes: {batch_size: [1024]}\nresources: {cpus: 1, gpus: 0.05}\n")
    done = call_here("co2l.cluster.__main__", "check", made.path, "--space", space, "--offline", cwd=tmp_path)
    assert done.returncode == 2
    assert "WRONG  memory       a trial of batch_size=1024 takes 1.2 GiB, and its share is 0.7 GiB" in done.stdout


@pytest.mark.parametrize(("tag", "reason"), [("latest", "not pinned"), ("0.1.0-ray2.55.0", "does not match")])
def test_an_image_of_other_versions(tag: str, reason: str, tmp_path: Path) -> None:
    made = cluster("cluster/gpu.yaml", tmp_path, docker={"image": f"mine/co2l:{tag}", "container_name": "co2l"})
    assert reason in wrong(check.findings(made, 1, 0))["image"]


def test_kubernetes_of_other_versions(tmp_path: Path) -> None:
    made = cluster("cluster/kuberay.yaml", tmp_path)
    (job,) = [each for each in made.documents if each["kind"] == "RayJob"]
    spec = job["spec"]["rayClusterSpec"]
    spec["rayVersion"] = "2.55.0"
    assert wrong(check.findings(made, 1, 0)) == {"image": f"rayVersion is not {importlib.metadata.version('ray')}"}
    spec["rayVersion"] = importlib.metadata.version("ray")
    spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = "mine/co2l:0.1.0-ray2.55.0"
    assert "mine/co2l:0.1.0-ray2.55.0 does not match" in wrong(check.findings(made, 1, 0))["image"]


@pytest.mark.parametrize("text", ["", "a: [", "just words", "provider: {type: gcp}"])
def test_a_file_that_is_no_cluster(text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(Co2lError) as error:
        check.read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_cloud_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = wrong(reach.findings(cluster("cluster/gpu.yaml", tmp_path), None, None))
    assert list(found) == ["credentials"]
    assert "aws configure" in found["credentials"]
    assert "\n" not in found["credentials"]


def test_a_host_that_does_not_answer(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("")
    made = cluster("cluster/onprem.yaml", tmp_path)
    made.config["provider"].update(head_ip="127.0.0.2", worker_ips=[])  # nothing listens there
    made.config["auth"].update(ssh_private_key=str(key))
    assert "127.0.0.2 cannot be reached by SSH" in wrong(reach.findings(made, None, None))["host"]
    key.unlink()
    assert wrong(reach.findings(made, None, None)) == {"key": f"{key} does not exist"}


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert reach.writable(str(tmp_path / "file" / "store")).state == "wrong"
    assert reach.writable(str(tmp_path / "store")).state == "ok"
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


class Door(BaseHTTPRequestHandler):
    """Answers as the dashboard of a Ray with the token `right` and MLflow with the user `co2l` do."""

    version = "2.60.0"

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        inside = given in ("Bearer right", "Basic Y28ybDpyaWdodA==")
        self.send_response(200 if inside else 403 if given else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"ray_version": self.version}).encode())

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def door() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_running_cluster_with_another_token_or_version(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reach.running(door, "right").state == "ok"
    assert "another token" in reach.running(door, "wrong").text
    assert "another token" in reach.running(door, None).text
    monkeypatch.setattr(Door, "version", "2.55.0")
    assert "they must match" in reach.running(door, "right").text
    assert "cannot be reached" in reach.running("http://127.0.0.1:9", "right").text


def test_a_tracking_server_that_wants_a_password(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    assert "MLFLOW_TRACKING_PASSWORD" in reach.tracked(door).text
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "co2l")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "right")
    assert reach.tracked(door).state == "ok"
    assert "cannot be reached" in reach.tracked("http://127.0.0.1:9").text
    assert reach.tracked("sqlite:///mlflow.db").state == "wrong"
