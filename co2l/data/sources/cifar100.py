"""CIFAR-100: a pickled batch of 32 × 32 colour images for each part, with their fine classes, downloaded if missing."""

from __future__ import annotations

from pathlib import Path

from co2l.data.cache import Arrays, stamp
from co2l.data.sources.cifar10 import read_batch
from co2l.data.sources.reading import Part, decoded, download_missing


def load(root: Path, part: Part) -> Arrays:
    file = root / "cifar-100-python" / part
    download_missing("CIFAR100", root, [file])
    return decoded(
        root,
        "cifar100",
        part,
        stamp([file]),
        lambda: read_batch(file, "a CIFAR-100 batch", labels="fine_labels", classes=100),
    )
