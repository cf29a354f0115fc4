"""A run's result as a JSON file that names everything it came from, and can be run again from."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import fsspec
import torch
import yaml
from pydantic import BaseModel, ValidationError

from co2l import __version__
from co2l.errors import Co2lError
from co2l.learning.config import RunConfig
from co2l.learning.run import Result


def result_document(config: RunConfig, result: Result) -> dict[str, Any]:
    versions = {"co2l": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"config": config.as_dict(), "key": config.key, "result": result.as_dict(), "versions": versions}


def save_result(root: str, config: RunConfig, result: Result) -> str:
    """Write the document below `root` (a folder or URL) and return its path."""
    name = f"{config.benchmark}-{config.method}-{config.split.kind}-seed{config.seed}-{config.key[:8]}.json"
    files, folder = fsspec.url_to_fs(f"{root.rstrip('/')}/results")
    files.makedirs(folder, exist_ok=True)
    files.pipe_file(f"{folder}/{name}", json.dumps(result_document(config, result), indent=2).encode())
    return f"{root.rstrip('/')}/results/{name}"


class Chosen(BaseModel):
    """What a configuration file says; further keys, such as a result's seed and split, are not needed."""

    benchmark: str
    method: str = "co2l"
    settings: dict[str, Any] = {}
    group: dict[str, Any] = {}  # what it was chosen for, as a buffer size


def load_configurations(path: str) -> list[Chosen]:
    """The configuration in a YAML or JSON file, or those in a list there; it may be a result that was saved here."""
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise Co2lError(f"cannot be read ({reason})", where=path, fix="give a YAML or JSON file") from None
    except yaml.YAMLError:
        raise Co2lError("is neither YAML nor JSON", where=path) from None
    if isinstance(content, dict) and isinstance(content.get("config"), dict):
        content = content["config"]
    try:
        return [Chosen.model_validate(each) for each in (content if isinstance(content, list) else [content])]
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        raise Co2lError(f"{key}: {first['msg'].lower()}", where=path, fix="it needs benchmark and settings") from None
