"""A run's result as a JSON file: what it was computed from, and enough to compute it again."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import fsspec
import torch
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel, ValidationError

from co2l import __version__
from co2l.errors import Co2lError
from co2l.files import read_text, write_atomic
from co2l.learning.config import RunConfig
from co2l.learning.events import Result
from co2l.plain_yaml import read_yaml


def result_document(config: RunConfig, result: Result) -> dict[str, Any]:
    versions = {"co2l": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"config": config.as_dict(), "key": config.key, "result": result.as_dict(), "versions": versions}


def save_result(root: str, config: RunConfig, result: Result) -> str:
    """Write the document below `root` (a folder or URL) and return its path."""
    name = f"{config.spec.name}-{config.method}-{config.split.kind}-seed{config.seed}-{config.key[:8]}.json"
    content = json.dumps(result_document(config, result), indent=2).encode()
    files, folder = fsspec.url_to_fs(f"{root.rstrip('/')}/results")
    if isinstance(files, LocalFileSystem):
        write_atomic(Path(folder) / name, content)
    else:
        files.makedirs(folder, exist_ok=True)
        files.pipe_file(f"{folder}/{name}", content)
    return f"{root.rstrip('/')}/results/{name}"


class Chosen(BaseModel):
    """What a configuration file says; other keys, such as a result's seed and split, are ignored."""

    benchmark: str
    method: str = "co2l"
    settings: dict[str, Any] = {}
    group: dict[str, Any] = {}  # what it was chosen for, such as a buffer size


def load_configurations(path: str) -> list[Chosen]:
    """The configurations in a YAML or JSON file: one or a list; a saved result counts as one."""
    try:
        content = read_yaml(read_text(Path(path)), path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise Co2lError(f"cannot be read ({reason})", where=path, fix="give a YAML or JSON file") from None
    if isinstance(content, dict) and isinstance(content.get("config"), dict):
        content = content["config"]
    if isinstance(content, dict) and content.keys() & {"axes", "variants"}:
        raise Co2lError("is a search space, not a configuration", where=path, fix="give it with --space")
    try:
        return [Chosen.model_validate(each) for each in (content if isinstance(content, list) else [content])]
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        raise Co2lError(f"{key}: {first['msg'].lower()}", where=path, fix="it needs benchmark and settings") from None
