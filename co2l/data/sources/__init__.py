"""The datasets as they lie on disk, a module each; a part of one, train or test, is read without opening the other.

CIFAR-10, CIFAR-100 and MNIST are downloaded if they are missing; Tiny-ImageNet is read from its folder or its archive;
the digits come with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from co2l.data.cache import Arrays
from co2l.data.sources import cifar10, cifar100, digits, mnist, tiny_imagenet
from co2l.data.sources.reading import Part
from co2l.errors import unknown

Loader = Callable[[Path, Part], Arrays]
SOURCES: dict[str, Loader] = {
    "cifar10": cifar10.load,
    "cifar100": cifar100.load,
    "mnist": mnist.load,
    "tiny_imagenet": tiny_imagenet.load,
    "digits": digits.load,
}


def load(source: str | Loader, part: Part, root: Path) -> Arrays:
    """One part of a dataset, by its name or by what reads it, decoded once per data root."""
    if callable(source):
        return source(root.absolute(), part)
    if source not in SOURCES:
        raise unknown("dataset", source, SOURCES)
    return SOURCES[source](root.absolute(), part)
