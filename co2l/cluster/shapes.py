"""Whether a cluster's file has the shape that its checks read: an object where they look into one, a list where they go
through one.

Ray and Kubernetes have schemas for the rest; what those leave open ends here in one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from co2l.errors import Co2lError, headline, shortened

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def _object(required: str = "", **properties: object) -> dict[str, object]:
    return {"type": "object", "required": required.split(), "properties": properties}


def _each(kind: Mapping[str, object]) -> dict[str, object]:
    """An object with any keys, all of whose values are of this kind."""
    return {"type": "object", "additionalProperties": kind}


_NODE = _object(
    SecurityGroupIds=TEXTS, InstanceType=TEXT, KeyName=TEXT, ImageId=TEXT, IamInstanceProfile=_object("Name", Name=TEXT)
)
_NODE_TYPE = _object(
    "node_config", node_config=_NODE, resources=_each({"type": "number"}), max_workers={"type": "integer"}
)
_OF_RAY = {
    "docker": _object(image=TEXT, run_options=TEXTS),
    "head_start_ray_commands": TEXTS,
    "worker_start_ray_commands": TEXTS,
    "file_mounts": _each(TEXT),
    "head_node_type": TEXT,
    "auth": _object("ssh_user ssh_private_key", ssh_user=TEXT, ssh_private_key=TEXT),
}
_POD = _object(
    "containers",
    containers={"type": "array", "minItems": 1, "items": _object(resources=_object(limits={"type": "object"}))},
    nodeSelector=_each(TEXT),
)
_GROUP = _object("groupName template", groupName=TEXT, template=_object("spec", spec=_POD))
_JOB = _object("rayClusterSpec", rayClusterSpec=_object(workerGroupSpecs={"type": "array", "items": _GROUP}))
SHAPES: dict[str, dict[str, object]] = {
    "aws": _object(
        "provider auth available_node_types",
        provider=_object("region", region=TEXT),
        available_node_types={**_each(_NODE_TYPE), "minProperties": 1},
        **_OF_RAY,
    ),
    "local": _object(
        "provider auth", provider=_object("head_ip worker_ips", head_ip=TEXT, worker_ips=TEXTS), **_OF_RAY
    ),
    "compose": _object("services", services=_each(_object(ports={"type": "array"}))),
    "RayJob": _object("spec", spec=_JOB),
    "Service": _object("metadata spec", metadata=_object("name", name=TEXT), spec={"type": "object"}),
}


def check_shapes(path: Path, kind: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """An error for the first part of another shape."""
    import jsonschema

    kubernetes = kind == "kubernetes"
    if kubernetes and sum(each.get("kind") == "RayJob" for each in documents) > 1:
        raise Co2lError("describes more than one RayJob", where=str(path), fix="use a file for each")
    for document in documents:
        shape = SHAPES.get(str(document.get("kind")), {}) if kubernetes else SHAPES[kind]
        error = next(jsonschema.Draft7Validator(shape).iter_errors(document), None)
        if error is not None:
            where = ".".join([f"{path}: ", *map(str, error.absolute_path)]).replace(": .", ": ")
            what = shortened(headline(error.message), 120)
            raise Co2lError(what, where=where.removesuffix(": "), fix="see the shipped files: co2l cluster copy")
