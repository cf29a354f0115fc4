"""A run's result as a JSON file that names everything it came from."""

from __future__ import annotations

import json
import platform
from typing import Any

import fsspec
import torch

from co2l import __version__
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
