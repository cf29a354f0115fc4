"""Decoded datasets as plain arrays on disk, mapped into memory by every process that reads them.

An entry is three files: the images (`.npy`, mapped, so a machine holds one copy for all its processes), the
labels, and a manifest with the sha256 of both. The manifest also keeps the files' sizes and times: an entry that
still has them is trusted, any other is hashed again and rebuilt if the hash differs. Files are written atomically
and every builder of an entry writes the same bytes, so two builders at once do no harm. The folder may be deleted
at any time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from co2l.errors import Co2lError
from co2l.files import open_atomic, write_atomic

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)


@dataclass(frozen=True, eq=False)
class Arrays:
    """One part of a dataset: uint8 images [N, C, H, W], their int64 classes, and the sha256 of both."""

    images: Tensor
    labels: Tensor
    fingerprint: str


def only(arrays: Arrays, classes: frozenset[int]) -> Arrays:
    """The examples of some classes, copied; nothing else of the arrays is held."""
    rows = torch.isin(arrays.labels, torch.tensor(sorted(classes))).nonzero().squeeze(1)
    if len(rows) == len(arrays.labels):
        return arrays
    return in_memory(arrays.images.index_select(0, rows).numpy(), arrays.labels[rows].numpy())


def in_memory(images: Images, labels: Labels) -> Arrays:
    return _arrays(images, labels, _fingerprint(images, labels))


def cached(folder: Path, entry: str, build: Callable[[], tuple[Images, Labels]]) -> Arrays:
    """The entry from `folder`, built and written first if it is missing or damaged.

    A folder that cannot be written to (a read-only data root) costs memory and time, but is not an error.
    """
    found = _read(folder, entry)
    if found is not None:
        return found
    images, labels = build()
    built = in_memory(images, labels)
    try:
        _write(folder, entry, images, labels, built.fingerprint)
    except OSError as error:
        if error.errno in _NOT_ALLOWED:
            return built
        size = images.nbytes + labels.nbytes
        raise Co2lError(
            f"cannot write the decoded images, {size / 1e6:.0f} MB ({error.strerror or error})",
            where=str(folder),
            fix="free space, or set --data / CO2L_DATA to a folder with enough",
        ) from error
    return _read(folder, entry) or built


def stamp(files: list[Path], content: bytes = b"") -> str:
    """The state of source files in 16 hex digits, from their names, sizes and times: cheap, as every process asks."""
    stats = [(file.parent.name, file.name, file.stat()) for file in files]
    text = repr([(folder, name, stat.st_size, stat.st_mtime_ns) for folder, name, stat in stats])
    return hashlib.sha256(text.encode() + content).hexdigest()[:16]


def _paths(folder: Path, entry: str) -> tuple[Path, Path, Path]:
    return folder / f"{entry}.npy", folder / f"{entry}.labels.npy", folder / f"{entry}.json"


def _read(folder: Path, entry: str) -> Arrays | None:
    images_file, labels_file, manifest_file = _paths(folder, entry)
    try:
        manifest = json.loads(manifest_file.read_text())
        fingerprint, written = str(manifest["fingerprint"]), manifest["files"]
        # Copy-on-write: processes share the pages; a write stays in the process that made it.
        images = np.load(images_file, mmap_mode="c", allow_pickle=False)
        labels = np.load(labels_file, allow_pickle=False)
        stamps = _stamps(images_file, labels_file)
    except (OSError, ValueError, EOFError, KeyError, TypeError):
        return None
    if stamps != written:
        if _fingerprint(images, labels) != fingerprint:
            return None
        with contextlib.suppress(OSError):  # copied or touched, but intact: skip the hash next time
            _write_manifest(manifest_file, fingerprint, stamps)
    return _arrays(images, labels, fingerprint)


def _write(folder: Path, entry: str, images: Images, labels: Labels, fingerprint: str) -> None:
    images_file, labels_file, manifest_file = _paths(folder, entry)
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _share(folder, folder)
    for path, array in ((images_file, images), (labels_file, labels)):
        with open_atomic(path) as file:
            # Not numpy.save: on a full disk it raises an error that does not say so.
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(np.ascontiguousarray(array).data.cast("B"))
        _share(path, folder)
    _write_manifest(manifest_file, fingerprint, _stamps(images_file, labels_file))


def _write_manifest(path: Path, fingerprint: str, stamps: list[list[int]]) -> None:
    write_atomic(path, json.dumps({"fingerprint": fingerprint, "files": stamps}))
    _share(path, path.parent)


def _share(path: Path, folder: Path) -> None:
    """Whoever reads the dataset reads what is made of it, though the results of a search are its owner's alone."""
    with contextlib.suppress(OSError):
        path.chmod(folder.parent.stat().st_mode & (0o777 if path.is_dir() else 0o666))


def _stamps(*files: Path) -> list[list[int]]:
    return [[stat.st_size, stat.st_mtime_ns] for stat in (file.stat() for file in files)]


def _fingerprint(images: Images, labels: Labels) -> str:
    digest = hashlib.sha256()
    for array in (images, labels):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()


def _arrays(images: Images, labels: Labels, fingerprint: str) -> Arrays:
    return Arrays(torch.from_numpy(images), torch.from_numpy(labels), fingerprint)
