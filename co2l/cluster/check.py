"""What is wrong with a cluster's file, found before the cluster starts.

Each check yields findings, in the order of `findings`; checks that need the network are in `reach`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from co2l.cluster.shapes import check_shapes
from co2l.errors import Co2lError, headline
from co2l.files import read_text, user_path
from co2l.learning.cards import Card, gib_on_card, of_instance, of_product
from co2l.plain_yaml import read_documents

if TYPE_CHECKING:  # torch takes seconds to import
    from co2l.search.space.memory import Memory

UNSET = "CHANGE-ME"
PRODUCT = "nvidia.com/gpu.product"  # the label that NVIDIA's GPU feature discovery gives a node of Kubernetes
Kind = Literal["aws", "local", "kubernetes", "compose"]


@dataclass(frozen=True)
class Finding:
    what: str
    state: Literal["ok", "wrong", "unknown"]
    text: str


@dataclass(frozen=True)
class Cluster:
    """The content of a cluster's file: several documents for Kubernetes, otherwise one."""

    path: Path
    kind: Kind
    documents: tuple[dict[str, Any], ...]

    @property
    def config(self) -> dict[str, Any]:
        return self.documents[0]

    def setting(self, name: str) -> str | None:
        """An environment variable of the nodes, from the container's options."""
        options = self.config.get("docker", {}).get("run_options", []) if self.kind in ("aws", "local") else []
        found = [option.partition(f"--env={name}=")[2] for option in options if f"--env={name}=" in option]
        return found[0] if found else None


def read(path: Path) -> Cluster:
    try:
        documents = tuple(each for each in read_documents(read_text(path), str(path)) if each is not None)
    except (OSError, UnicodeDecodeError) as error:
        raise Co2lError(f"cannot be read ({getattr(error, 'strerror', None) or error})", where=str(path)) from None
    if not documents or not all(isinstance(each, dict) for each in documents):
        raise Co2lError("describes no cluster", where=str(path), fix="see cluster/gpu.yaml")
    kind = _kind(documents, path)
    check_shapes(path, kind, documents)
    return Cluster(path, kind, documents)


def _kind(documents: Sequence[Mapping[str, Any]], path: Path) -> Kind:
    if any(each.get("kind") == "RayJob" for each in documents):
        return "kubernetes"
    if "services" in documents[0]:
        return "compose"
    provider = documents[0].get("provider")
    kind = provider.get("type") if isinstance(provider, Mapping) else provider
    if kind not in ("aws", "local"):
        raise Co2lError(f"the provider is {kind!r}", where=f"{path}: provider.type", fix="use aws or local")
    return "aws" if kind == "aws" else "local"


def findings(cluster: Cluster, cpus: float, gpus: float, needed: Memory | None = None) -> Iterator[Finding]:
    """What the file alone shows; with the memory of a space's trials, whether the cards hold them."""
    if cluster.kind in ("aws", "local"):
        yield schema(cluster.config)
        yield authentication(cluster.config)
        yield head(cluster.config)
    yield values(cluster)
    yield from images(cluster)
    yield ports(cluster)
    yield resources(cluster, cpus, gpus)
    if needed and gpus:
        yield from memory(cluster, cpus, gpus, needed)


def schema(config: Mapping[str, Any]) -> Finding:
    import jsonschema

    spec = importlib.util.find_spec("ray")  # importing it would take seconds
    assert spec is not None
    assert spec.origin is not None
    rules = json.loads((Path(spec.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    errors = sorted(jsonschema.Draft7Validator(rules).iter_errors(config), key=lambda error: list(map(str, error.path)))
    if not errors:
        return Finding("schema", "ok", f"Ray {importlib.metadata.version('ray')} accepts it")
    where = ".".join(map(str, errors[0].absolute_path)) or "top level"
    return Finding("schema", "wrong", f"{where}: {headline(errors[0].message)}")


def values(cluster: Cluster) -> Finding:
    unset = dict.fromkeys(path for document in cluster.documents for path in _paths(document, UNSET))
    if unset:  # other keys repeat the block at the top
        shown = ", ".join([path for path in unset if path.startswith("metadata.")] or unset)
        return Finding("values", "wrong", f"not set: {shown}; replace {UNSET} with your own values")
    return Finding("values", "ok", "all are set")


def images(cluster: Cluster) -> Iterator[Finding]:
    """Head and workers must run the versions installed here, or they cannot talk to each other."""
    ray, ours = importlib.metadata.version("ray"), importlib.metadata.version("co2l")
    wanted = f"{ours}-ray{ray}"
    found = {image for document in cluster.documents for image in _images(document)}
    own = sorted(image for image in found if "/co2l:" in f"/{image}" or image.endswith("co2l"))
    if not found and cluster.kind == "local":
        yield Finding("image", "unknown", "no container: the hosts' own installation is used")
        return
    if not own:
        yield Finding("image", "wrong", "no image of co2l; build cluster/Dockerfile and name it")
    for image in own:
        tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
        if tag in ("", "latest"):
            yield Finding("image", "wrong", f"{image} is not pinned; use the tag {wanted}")
        elif tag != wanted:
            yield Finding("image", "wrong", f"{image} does not match what is installed here ({wanted})")
        else:
            yield Finding("image", "ok", f"{image}: the versions installed here")
    for document in cluster.documents:
        if document.get("kind") == "RayJob" and document["spec"]["rayClusterSpec"].get("rayVersion") != ray:
            yield Finding("image", "wrong", f"rayVersion is not {ray}")


def authentication(config: Mapping[str, Any]) -> Finding:
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        starts = [command for command in config.get(name, ()) if "ray start" in command]
        if not all("RAY_AUTH_MODE=token" in command for command in starts) or not starts:
            return Finding("token", "wrong", f"{name}: `ray start` without RAY_AUTH_MODE=token lets anyone run code")
    mounted = config.get("file_mounts", {}).get("~/.ray/auth_token")
    if mounted is None:
        return Finding("token", "wrong", "file_mounts: ~/.ray/auth_token is missing")
    if not user_path(mounted, "file_mounts").is_file():
        return Finding("token", "wrong", f"{mounted} does not exist; create it with: ray get-auth-token --generate")
    return Finding("token", "ok", f"required on every node; it is in {mounted}")


def head(config: Mapping[str, Any]) -> Finding:
    start = " ".join(config.get("head_start_ray_commands", ()))
    types, name = config.get("available_node_types", {}), config.get("head_node_type", "")
    if "--num-cpus=0" not in start and types.get(name, {}).get("resources", {}).get("CPU") != 0:
        return Finding("head", "wrong", "trials would run on the head, which knows the passwords; give it 0 CPUs")
    return Finding("head", "ok", "runs no trials")


def ports(cluster: Cluster) -> Finding:
    if cluster.kind == "compose":
        services = cluster.config["services"].items()
        published = [(name, str(port)) for name, service in services for port in service.get("ports", ())]
        outside = [f"{name} {port}" for name, port in published if not port.startswith("127.0.0.1:")]
        return _ports(outside, "published on 127.0.0.1 only")
    if cluster.kind == "kubernetes":
        services = [each for each in cluster.documents if each.get("kind") == "Service"]
        outside = [
            each["metadata"]["name"] for each in services if each["spec"].get("type", "ClusterIP") != "ClusterIP"
        ]
        return _ports(outside, "no service is reachable from outside the cluster")
    config = cluster.config
    start = " ".join(config.get("head_start_ray_commands", ()))
    types = config.get("available_node_types", {}) if cluster.kind == "aws" else {}
    own = {name for name, each in types.items() if not each["node_config"].get("SecurityGroupIds")}
    outside = [f"SSH of {name} (Ray creates its group; give SecurityGroupIds)" for name in sorted(own)]
    if "--dashboard-host=127.0.0.1" not in start:
        outside.append("dashboard (add --dashboard-host=127.0.0.1)")
    return _ports(outside, "as in your security group" if cluster.kind == "aws" else "only SSH is needed")


def _ports(outside: list[str], fine: str) -> Finding:
    if outside:
        return Finding("ports", "wrong", f"open to the world: {', '.join(outside)}")
    return Finding("ports", "ok", fine)


def resources(cluster: Cluster, cpus: float, gpus: float) -> Finding:
    """A trial that fits no node type would wait forever."""
    trial = f"a trial of {cpus:g} CPUs and {gpus:g} GPUs"
    if cluster.kind not in ("aws", "kubernetes"):
        return Finding("resources", "unknown", f"{trial}: depends on the hosts; the search says so if none fits")
    types = node_types(cluster)
    fitting = [node.name for node in types if node.holds(cpus, gpus)]
    if not fitting:
        names = ", ".join(node.name for node in types)
        return Finding("resources", "wrong", f"{trial} fits none of {names or 'no node types'}")
    return Finding("resources", "ok", f"{trial} fits {', '.join(fitting)}")


def memory(cluster: Cluster, cpus: float, gpus: float, needed: Memory) -> Iterator[Finding]:
    """Ray knows nothing of the cards' memory: every node type that a trial may land on must hold the largest."""
    most = needed.most
    takes = f"a trial{f' of {most.name}' if most.name else ''} takes {gib_on_card(most.footprint.peak):.1f} GiB"
    landing = [node for node in node_types(cluster) if node.holds(cpus, gpus)]
    if not landing:
        yield Finding("memory", "unknown", f"{takes}; which cards there are depends on the hosts")
    for node in landing:
        if node.card is None:
            yield Finding("memory", "unknown", f"{takes}; the card of {node.name} ({node.machine}) is not known")
            continue
        room = f"{node.card.gib * min(gpus, 1.0):.1f} GiB of {node.name}'s {node.card.name}"
        if node.card.holds(most.footprint.peak, gpus):
            yield Finding("memory", "ok", f"{takes} of its share, {room}")
        else:
            names = ", ".join(card.name for card in needed.fitting) or "no card that we know"
            yield Finding("memory", "wrong", f"{takes}, and its share is {room}; it would fit {names}")


@dataclass(frozen=True)
class NodeType:
    name: str
    cpus: float
    gpus: float
    machine: str
    card: Card | None

    def holds(self, cpus: float, gpus: float) -> bool:
        return self.cpus >= cpus and self.gpus >= gpus


def node_types(cluster: Cluster) -> list[NodeType]:
    """What the cluster may start for trials, as far as its file tells."""
    if cluster.kind == "aws":
        given = cluster.config.get("available_node_types", {}).items()
        return [_of_aws(name, each) for name, each in given if each.get("max_workers", 1) > 0]
    if cluster.kind == "kubernetes":
        (job,) = [each for each in cluster.documents if each.get("kind") == "RayJob"]
        return [_of_kubernetes(group) for group in job["spec"]["rayClusterSpec"].get("workerGroupSpecs", ())]
    return []


def _of_aws(name: str, given: Mapping[str, Any]) -> NodeType:
    amounts, machine = given.get("resources", {}), given.get("node_config", {}).get("InstanceType", "no instance type")
    return NodeType(name, amounts.get("CPU", 0), amounts.get("GPU", 0), machine, of_instance(machine))


def _of_kubernetes(group: Mapping[str, Any]) -> NodeType:
    pod = group["template"]["spec"]
    limits = pod["containers"][0].get("resources", {}).get("limits", {})
    product = pod.get("nodeSelector", {}).get(PRODUCT, f"no nodeSelector for {PRODUCT}")
    cpus, gpus = _amount(limits.get("cpu", 0)), _amount(limits.get("nvidia.com/gpu", 0))
    return NodeType(group["groupName"], cpus, gpus, product, of_product(product))


def _amount(given: object) -> float:
    """A quantity as Kubernetes writes it: 4, 0.5 or 500m."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?m?", str(given)):
        raise Co2lError(f"'{given}' is no amount", where="resources.limits", fix="write for example 4 or 500m")
    return float(str(given).removesuffix("m")) / (1000 if str(given).endswith("m") else 1)


def _paths(part: Any, text: str, where: str = "") -> Iterator[str]:
    """Where in a document a text occurs, as a.b.c."""
    if isinstance(part, Mapping):
        for name, each in part.items():
            yield from _paths(each, text, f"{where}.{name}" if where else str(name))
    elif isinstance(part, list):
        for each in part:
            yield from _paths(each, text, where)
    elif text in str(part):
        yield where


def _images(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        for name, each in part.items():
            if re.fullmatch(r"image|head_image|worker_image", str(name)) and isinstance(each, str):
                yield each
            else:
                yield from _images(each)
    elif isinstance(part, list):
        for each in part:
            yield from _images(each)
