"""CIFAR-10: pickled batches of 32 × 32 colour images, downloaded if missing."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from co2l.data.cache import Arrays, Images, Labels, stamp
from co2l.data.sources.reading import Part, checked, decoded, download_missing, reading, require


def load(root: Path, part: Part) -> Arrays:
    names = [f"data_batch_{i}" for i in range(1, 6)] if part == "train" else ["test_batch"]
    files = [root / "cifar-10-batches-py" / name for name in names]
    download_missing("CIFAR10", root, files)

    def build() -> tuple[Images, Labels]:
        batches = [read_batch(file, "a CIFAR-10 batch", labels="labels", classes=10) for file in files]
        images, labels = zip(*batches, strict=True)
        return np.concatenate(images), np.concatenate(labels)

    return decoded(root, "cifar10", part, stamp(files), build)


def read_batch(file: Path, what: str, *, labels: str, classes: int) -> tuple[Images, Labels]:
    """Images and classes of a pickled batch, in CIFAR's format; `labels` is what it calls its classes."""
    with reading(file, what), file.open("rb") as opened:
        batch = _ArraysOnly(opened, encoding="latin1").load()
        pixels, found = batch["data"], np.asarray(batch[labels], dtype=np.int64)
        require(isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8, "its pixels are not bytes")
        return checked(pixels.reshape(-1, 3, 32, 32), found, classes=classes)


_RECONSTRUCT = np.empty(0).__reduce__()[0]


class _ArraysOnly(pickle.Unpickler):
    """Unpickles lists, dictionaries, strings and numpy arrays, and refuses anything else a pickle can name."""

    _allowed: dict[tuple[str, str], Any] = {  # noqa: RUF012 (constant)
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,  # its old name, as in the real files
        ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}") from None
