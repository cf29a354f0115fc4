"""MNIST: idx files of 28 × 28 gray digits, plain or gzipped, downloaded if missing."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np

from co2l.data.cache import Arrays, Images, Labels, stamp
from co2l.data.sources.reading import Part, checked, decoded, download_missing, reading, require


def load(root: Path, part: Part) -> Arrays:
    prefix = "train" if part == "train" else "t10k"
    names = [f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"]
    files = [_plain_or_gzipped(root / "MNIST" / "raw" / name) for name in names]
    download_missing("MNIST", root, files)

    def build() -> tuple[Images, Labels]:
        images, labels = (_idx(file) for file in files)
        with reading(files[0], "MNIST's images"):
            return checked(images.reshape(-1, 1, 28, 28), labels.astype(np.int64), classes=10)

    return decoded(root, "mnist", part, stamp(files), build)


def _plain_or_gzipped(plain: Path) -> Path:
    gzipped = plain.with_name(f"{plain.name}.gz")
    return gzipped if gzipped.is_file() and not plain.is_file() else plain


def _idx(file: Path) -> Images:
    """An array of bytes in MNIST's format: two zeros, type 8, number of axes, their lengths, the bytes."""
    with reading(file, "an idx file"):
        data = file.read_bytes()
        if file.suffix == ".gz":
            data = gzip.decompress(data)
        require(len(data) >= 4 and data[:3] == b"\0\0\x08", "its first bytes are not those of an idx file")
        axes = 4 * data[3]
        shape = [int.from_bytes(data[4 + i : 8 + i], "big") for i in range(0, axes, 4)]
        require(len(data) == 4 + axes + math.prod(shape), f"its length does not fit its shape {shape}")
        return np.frombuffer(data, np.uint8, offset=4 + axes).reshape(shape).copy()  # torch wants writable memory
