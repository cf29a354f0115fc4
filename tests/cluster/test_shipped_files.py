"""The shipped cluster files: valid for the engines that read them, closed to strangers, and of one mind on versions."""

from __future__ import annotations

import functools
import json
import operator
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml
from commands import call_here, refusal_of

from co2l.cluster import check
from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.cards import gib_on_card
from co2l.learning.footprint import footprint
from co2l.learning.methods import configure
from co2l.search.space.space import Space, load

SIZES = {"width", "batch_size", "buffer_size", "minibatch_size", "gmbs"}
REPOSITORY = Path(__file__).parents[2]
CONSTRAINTS = dict(line.split("==") for line in (REPOSITORY / "constraints.txt").read_text().split())
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
FILES = ["cluster/gpu.yaml", "cluster/onprem.yaml", "cluster/kuberay.yaml", "docker-compose.yml"]
KUBERNETES = json.loads(Path(__file__).with_name("kubernetes.schema.json").read_text())["$defs"]
RAYJOB = yaml.safe_load(Path(__file__).with_name("rayjob.schema.yaml").read_text())
KINDS = {
    "PersistentVolumeClaim": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "Service": "io.k8s.api.core.v1.Service",
    "Deployment": "io.k8s.api.apps.v1.Deployment",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
}


@functools.cache
def gpu_spaces() -> dict[tuple[str, str], list[Space]]:
    """The shipped spaces that ask for a GPU, by benchmark and method."""
    found: dict[tuple[str, str], list[Space]] = {}
    for path in sorted((REPOSITORY / "search_spaces").rglob("*.yaml")):
        space = load(path)
        if space.resources.gpus:
            found.setdefault((space.benchmark, space.method), []).append(space)
    return found


def amount(size: int | str) -> float:
    """A buffer may be unlimited."""
    return float("inf") if isinstance(size, str) else size


@functools.cache
def hardest() -> dict[tuple[str, str], tuple[dict[str, Any], list[Space]]]:
    """By benchmark and method: the largest sizes of its trials, and the spaces.

    Where a method has the same sizes and resources on two benchmarks, the one with larger images, more of them and
    more classes stands for both.
    """
    found: dict[tuple[Any, ...], tuple[dict[str, Any], list[Space]]] = {}
    for (name, method), spaces in sorted(gpu_spaces().items(), key=lambda kind: extent(kind[0][0]), reverse=True):
        dumped = [trial.config.settings.model_dump() for space in spaces for trial in space.trials()]
        largest = {key: max((each[key] for each in dumped), key=amount) for key in sorted(SIZES & dumped[0].keys())}
        wanted = share_and_cpus(spaces), tuple(largest.items())
        larger = [kind for kind in found if kind[1:] == (method, *wanted)]
        if covering := [kind for kind in larger if all(map(operator.ge, extent(kind[0]), extent(name)))]:
            found[covering[0]][1].extend(spaces)
        else:
            found[name, method, *wanted] = largest, [*spaces]
    return {(name, method): of for (name, method, *_), of in found.items()}


def share_and_cpus(spaces: list[Space]) -> tuple[float, float]:
    """The least of a GPU that one of their trials has, and the most cores."""
    return min(space.resources.gpus for space in spaces), max(space.resources.cpus for space in spaces)


def extent(name: str) -> tuple[int, ...]:
    spec = BENCHMARKS[name]
    return (*spec.image_shape, spec.examples, spec.num_classes)


def read(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((REPOSITORY / name).read_text()))


def kubernetes(kind: str) -> list[dict[str, Any]]:
    everything = yaml.safe_load_all((REPOSITORY / "cluster" / "kuberay.yaml").read_text())
    return [each for each in everything if each["kind"] == kind]


@pytest.mark.parametrize("name", ["cluster/gpu.yaml", "cluster/onprem.yaml"])
def test_ray_accepts_the_file(name: str) -> None:
    schema = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"
    accepts = jsonschema.Draft7Validator(json.loads(schema.read_text()))
    assert list(accepts.iter_errors(read(name))) == []
    assert list(accepts.iter_errors({**read(name), "max_worker": 1}))  # a misspelt key is found


@pytest.mark.parametrize("name", FILES)
def test_every_image_of_ours_names_the_pinned_versions(name: str) -> None:
    tags = re.findall(r"co2l:(\d\S+)", (REPOSITORY / name).read_text())
    assert set(tags) == {f"{VERSION}-ray{CONSTRAINTS['ray']}"}


@pytest.mark.parametrize("name", FILES)
def test_no_image_floats(name: str) -> None:
    images = re.findall(r"^\s*(?:- )?(?:\w+: )?image: (?:&\w+ )?(\S+)", (REPOSITORY / name).read_text(), re.MULTILINE)
    assert images
    for image in images:
        assert image.startswith("*") or re.search(r":\d+\.\d+", image), image


@pytest.mark.parametrize("name", ["cluster/gpu.yaml", "cluster/onprem.yaml"])
def test_ray_starts_with_a_token_and_its_dashboard_on_loopback(name: str) -> None:
    config = read(name)
    (head,) = [each for each in config["head_start_ray_commands"] if "ray start" in each]
    (worker,) = [each for each in config["worker_start_ray_commands"] if "ray start" in each]
    assert "--dashboard-host=127.0.0.1" in head
    assert "RAY_AUTH_MODE=token" in head
    assert "RAY_AUTH_MODE=token" in worker
    assert "driver.env" not in worker
    assert "~/.ray/auth_token" in config["file_mounts"]


def test_nothing_of_aws_is_open_to_the_world_or_idle() -> None:
    config = read("cluster/gpu.yaml")
    assert "0.0.0.0/0" not in json.dumps(config)
    assert "::/0" not in json.dumps(config)
    assert "security_group" not in config["provider"]  # Ray would add SSH from everywhere
    head, gpu = (config["available_node_types"][name] for name in ("head", "gpu"))
    assert head["resources"] == {"CPU": 0, "GPU": 0}
    assert "InstanceMarketOptions" not in head["node_config"]
    assert gpu["min_workers"] == 0
    assert gpu["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert config["provider"]["cache_stopped_nodes"] is False


def test_compose_publishes_two_ports_on_loopback_only() -> None:
    services = read("docker-compose.yml")["services"]
    published = {name: port for name, service in services.items() for port in service.get("ports", [])}
    assert published == {"mlflow": "127.0.0.1:5000:5000", "head": "127.0.0.1:8265:8265"}
    networks = read("docker-compose.yml")["networks"]
    assert networks["cluster"] == {"internal": True}
    for name, service in services.items():
        inside = set(service["networks"])
        assert inside == ({"cluster", "outside"} if name in published else {"cluster"}), name


def test_compose_has_no_default_secret() -> None:
    text = (REPOSITORY / "docker-compose.yml").read_text()
    example = (REPOSITORY / ".env.example").read_text()
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert needed == {"POSTGRES_PASSWORD", "MLFLOW_PASSWORD", "MLFLOW_SECRET_KEY", "RAY_AUTH_TOKEN"}
    assert set(re.findall(r"\$\{(\w+)", text)) == {*needed, "CO2L_DATA"}
    for name in needed:
        assert re.search(rf"^{name}=$", example, re.MULTILINE), f"{name} has a value in .env.example"


def test_compose_waits_for_health_and_scales() -> None:
    services = read("docker-compose.yml")["services"]
    assert {name for name, service in services.items() if "healthcheck" in service} == {"postgres", "mlflow", "head"}
    for name, service in services.items():
        for waited in service.get("depends_on", {}).values():
            assert waited == {"condition": "service_healthy"}, name
        assert "container_name" not in service, f"{name} could not be scaled"
    assert services["gpu-worker"]["profiles"] == ["gpu"]


@pytest.mark.parametrize("name", ["worker", "gpu-worker", "tune"])
def test_compose_gives_no_password_to_trials(name: str) -> None:
    given = " ".join(map(str, read("docker-compose.yml")["services"][name]["environment"].values()))
    assert "PASSWORD" not in given
    assert "postgres" not in given


def test_docker_compose_accepts_the_file(tmp_path: Path) -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0
    ):
        pytest.skip("the docker compose plugin is not installed")
    secrets = "".join(f"{name}=secret-secret\n" for name in ("POSTGRES_PASSWORD", "MLFLOW_PASSWORD", "RAY_AUTH_TOKEN"))
    environment = tmp_path / "env"
    command = ["docker", "compose", "--env-file", str(environment), "--file", str(REPOSITORY / "docker-compose.yml")]
    environment.write_text(secrets)
    refused = subprocess.run([*command, "config"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "MLFLOW_SECRET_KEY" in refused.stderr
    environment.write_text(secrets + "MLFLOW_SECRET_KEY=secret-secret\n")
    subprocess.run([*command, "config", "--quiet"], check=True)


def test_the_image_is_not_root_and_holds_no_secret() -> None:
    lines = (REPOSITORY / "cluster" / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER ")] == ["USER co2l"]
    copied = [line.split()[2:-1] for line in lines if line.startswith("COPY")]
    allowed = {
        line.removeprefix("!") for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if "!" in line
    }
    assert {name for names in copied for name in names} == allowed
    dependencies = next(i for i, line in enumerate(lines) if "-r requirements.txt" in line)
    code = next(i for i, line in enumerate(lines) if line.startswith("COPY") and line.endswith(" co2l co2l"))
    assert dependencies < code, "a change of the code would install everything again"


def refused(document: dict[str, Any]) -> list[str]:
    """What the published definitions have against a document, each as `path: reason`."""
    if document["kind"] == "RayJob":
        schema = {**RAYJOB, "$defs": {**KUBERNETES, **RAYJOB["$defs"]}}
    else:
        schema = {"$ref": f"#/$defs/{KINDS[document['kind']]}", "$defs": KUBERNETES}
    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in errors]


def at(document: dict[str, Any], path: str) -> Any:
    part: Any = document
    for step in path.split("."):
        part = part[int(step)] if step.isdigit() else part[step]
    return part


@pytest.mark.parametrize("kind", [*KINDS, "RayJob"])
def test_kubernetes_accepts_every_document(kind: str) -> None:
    documents = kubernetes(kind)
    assert documents
    for document in documents:
        assert refused(document) == []


@pytest.mark.parametrize(
    ("kind", "path", "key", "value"),
    [
        ("RayJob", "spec", "shutdownAfterJobFinished", True),  # misspelt, at every level
        ("RayJob", "spec.rayClusterSpec", "authOption", {"mode": "token"}),
        ("RayJob", "spec.rayClusterSpec.headGroupSpec", "rayStartParam", {}),
        ("RayJob", "spec.rayClusterSpec.headGroupSpec.template.spec", "container", []),
        ("RayJob", "spec.rayClusterSpec.workerGroupSpecs.0", "minReplica", 0),
        ("RayJob", "spec.rayClusterSpec.workerGroupSpecs.0.template.spec.containers.0", "volumeMount", []),
        ("RayJob", "spec", "backoffLimit", "2"),  # of a wrong type
        ("RayJob", "spec", "ttlSecondsAfterFinished", 2**31),
        ("RayJob", "spec.rayClusterSpec.headGroupSpec.rayStartParams", "num-cpus", 0),
        ("RayJob", "spec.rayClusterSpec.workerGroupSpecs.0", "replicas", 1.5),
        ("RayJob", "spec.rayClusterSpec.headGroupSpec.template.spec.securityContext", "runAsUser", "1000"),
        ("RayJob", "spec.rayClusterSpec.authOptions", "mode", "tokens"),  # not among the values
        ("RayJob", "spec.rayClusterSpec.autoscalerOptions", "version", "v3"),
        ("RayJob", "spec", "managedBy", "me"),
        ("RayJob", "spec", "deletionStrategy", {"onSuccess": {"policy": "DeleteSelf"}}),  # one without the other
        ("Deployment", "spec", "replica", 1),
        ("Deployment", "spec.template.spec.containers.0.ports.0", "containerPort", "5432"),
        ("Service", "spec", "port", []),
        ("NetworkPolicy", "spec", "podSelectors", {}),
        ("PersistentVolumeClaim", "spec", "accessModes", "ReadWriteMany"),
    ],
)
def test_kubernetes_refuses_what_is_misspelt_or_of_another_type(kind: str, path: str, key: str, value: Any) -> None:
    document = kubernetes(kind)[0]
    at(document, path)[key] = value
    (reason,) = refused(document)
    assert reason.startswith(path)
    assert key in reason


@pytest.mark.parametrize(
    ("path", "key"),
    [("spec.rayClusterSpec", "headGroupSpec"), ("spec.rayClusterSpec.workerGroupSpecs.0", "groupName")],
)
def test_kubernetes_misses_what_it_needs(path: str, key: str) -> None:
    (job,) = kubernetes("RayJob")
    del at(job, path)[key]
    assert refused(job) == [f"{path}: '{key}' is a required property"]


def test_the_search_on_kubernetes_ends_with_its_cluster_and_hides_its_passwords() -> None:
    (job,) = kubernetes("RayJob")
    spec, cluster = job["spec"], job["spec"]["rayClusterSpec"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert cluster["rayVersion"] == CONSTRAINTS["ray"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    (worker,) = cluster["workerGroupSpecs"]
    assert "secretKeyRef" not in json.dumps(worker)
    for service in kubernetes("Service"):
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
    passwords = re.findall(r"PASSWORD, value: ", (REPOSITORY / "cluster" / "kuberay.yaml").read_text())
    assert not passwords


def test_every_shipped_space_is_among_them() -> None:
    assert sum(len(spaces) for _, spaces in hardest().values()) == sum(map(len, gpu_spaces().values()))
    assert {method for _, method in hardest()} == {method for _, method in gpu_spaces()}


@pytest.mark.parametrize("kind", hardest(), ids="-".join)
def test_the_shipped_cluster_can_run_every_shipped_space(kind: tuple[str, str]) -> None:
    """The largest trial of each benchmark and method, on every node type that the cluster starts."""
    largest, spaces = hardest()[kind]
    cluster = check.read(REPOSITORY / "cluster" / "gpu.yaml")
    share, cpus = share_and_cpus(spaces)
    peak = footprint(configure(*kind, largest)).peak
    nodes = [node for node in check.node_types(cluster) if node.holds(cpus, share)]
    assert nodes
    for node in nodes:
        assert node.card is not None
        assert node.card.holds(peak, share), f"{largest} takes {gib_on_card(peak):.1f} GiB of {node.card}"


def test_apptainer_has_the_layers_of_the_dockerfile() -> None:
    docker = (REPOSITORY / "cluster" / "Dockerfile").read_text()
    apptainer = (REPOSITORY / "cluster" / "apptainer.def").read_text()
    (base,) = re.findall(r"^FROM (\S+)$", docker, re.MULTILINE)
    assert f"Bootstrap: docker\nFrom: {base}\n" in apptainer
    packages = re.compile(r"--no-install-recommends[\\\s]+([\w -]+)")
    assert packages.findall(docker)[0].split() == packages.findall(apptainer)[0].splitlines()[0].split()
    files = apptainer[apptainer.index("%files") : apptainer.index("%post")].split()[1:]
    copied = {
        name for line in re.findall(r"^COPY --chown=co2l (.+)$", docker, re.MULTILINE) for name in line.split()[:-1]
    }
    assert files[::2] == [target.removeprefix("/app/") for target in files[1::2]]
    assert set(files[::2]) == copied
    installs = re.compile(r"\.venv/bin/pip install (.+?)(?: \\)?$", re.MULTILINE)
    assert installs.findall(docker) == installs.findall(apptainer)
    assert f"co2l-{VERSION}-ray{CONSTRAINTS['ray']}.sif" in apptainer


def test_slurm_gets_its_script_s_block_and_nothing_is_open() -> None:
    script = (REPOSITORY / "cluster" / "slurm.sh").read_text()
    assert script.count("CHANGE-ME") == 1
    block = script[script.index("set these") : script.index("leave the rest")]
    assert re.findall(r"#SBATCH --([\w-]+)", block) == ["partition", "nodes", "gpus-per-node", "cpus-per-task", "time"]
    assert "token" not in script.lower()  # it is made on the node, and no environment or command line shows it


def test_the_files_can_be_copied_without_a_clone(tmp_path: Path) -> None:
    done = call_here("co2l.__main__", "cluster", "copy", cwd=tmp_path)
    root = Path(__file__).resolve().parents[2]
    files = [path for path in (root / "cluster").rglob("*") if path.is_file()]
    shipped = {str(path.relative_to(root)): path.read_bytes() for path in files}
    assert (done.returncode, done.stdout.split()) == (0, sorted(shipped))
    assert {name: (tmp_path / name).read_bytes() for name in shipped} == shipped
    again = call_here("co2l.__main__", "cluster", "copy", cwd=tmp_path)
    assert refusal_of(again) == "co2l: cluster: is there already; give a new folder with --to"
