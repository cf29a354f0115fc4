"""What reading a dataset takes: find or download its files, check and decode them, keep the result, name what fails."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from co2l.data.cache import Arrays, Images, Labels, cached
from co2l.errors import Co2lError

Part = Literal["train", "test"]

ELSEWHERE = "or set --data / CO2L_DATA to the folder that holds it"


def decoded(root: Path, source: str, part: Part, files: str, build: Callable[[], tuple[Images, Labels]]) -> Arrays:
    """What `build` decodes, kept below the data root as long as the stamp of the source `files` stays the same."""
    return cached(root / "co2l-cache", f"{source}-{part}-{files}", build)


def download_missing(dataset: str, root: Path, files: list[Path]) -> None:
    """Let torchvision download `dataset` and check its md5 sums if any of its `files` below `root` is missing.

    It downloads into a temporary folder; only a complete download is moved.
    """
    missing = [file for file in files if not file.is_file()]
    if not missing:
        return
    from co2l.data.torchvision_import import torchvision  # as slow to import as torch

    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as folder:
            getattr(torchvision.datasets, dataset)(folder, download=True)
            for file in missing:
                file.parent.mkdir(parents=True, exist_ok=True)
                (folder / file.relative_to(root)).replace(file)
    except (OSError, RuntimeError) as error:
        names = [file.name for file in missing]
        raise Co2lError(
            f"{names[0]} is missing and {dataset} cannot be downloaded ({_one_line(error)})",
            where=str(missing[0].parent),
            fix=f"put {names[0] if len(names) == 1 else f'{names[0]} … {names[-1]}'} there, {ELSEWHERE}",
        ) from error


def checked(images: Images, labels: Labels, *, classes: int) -> tuple[Images, Labels]:
    require(len(images) == len(labels) > 0, f"it has {len(images)} images and {len(labels)} labels")
    require(labels.min() >= 0 and labels.max() < classes, f"its labels are not all in 0..{classes - 1}")
    return images, labels


def require(holds: bool | np.bool_, reason: str) -> None:
    """Fail with `reason` inside `reading`, which adds the file's name."""
    if not holds:
        raise ValueError(reason)


@contextlib.contextmanager
def reading(file: Path, what: str) -> Iterator[None]:
    """Turn any failure into one line that names the file."""
    try:
        yield
    except Co2lError:
        raise
    except Exception as error:  # damaged pickles, archives and images raise almost anything
        raise Co2lError(
            f"not {what} or damaged ({_one_line(error)})",
            where=str(file),
            fix=f"put an intact copy there, {ELSEWHERE}",
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
