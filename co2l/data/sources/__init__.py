"""The datasets as they lie on disk, a module each; a part of one, train or test, is read without opening the other.

CIFAR-10, CIFAR-100 and MNIST are downloaded if they are missing; Tiny-ImageNet is read from its folder or its archive;
the digits come with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from co2l.data.cache import Arrays, only
from co2l.data.sources import cifar10, cifar100, digits, mnist, tiny_imagenet
from co2l.data.sources.image_folder import ImageFolder
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


def load(source: str | Loader, part: Part, root: Path, classes: frozenset[int] | None = None) -> Arrays:
    """One part of a dataset, by its name or by what reads it, decoded once per data root.

    If `classes` are given, their examples alone. A folder of images with named classes opens no other folder; where
    one file holds all classes it is read, and nothing is kept of the others.
    """
    if isinstance(source, str) and source not in SOURCES:
        raise unknown("dataset", source, SOURCES)
    if classes is not None and isinstance(source, ImageFolder):
        source = source.of_classes(classes)
    arrays = SOURCES[source](root.absolute(), part) if isinstance(source, str) else source(root.absolute(), part)
    return arrays if classes is None else only(arrays, classes)
