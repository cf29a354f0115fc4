"""The datasets as they lie on disk: train and test are found, read and checked without opening the other.

CIFAR-10 and MNIST are downloaded if they are missing; Tiny-ImageNet is read from its folder or its archive;
the digits come with scikit-learn.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import io
import math
import os
import pickle
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import rich.console
import rich.progress
import torch
from numpy.typing import NDArray
from PIL import Image

from co2l.data.cache import Arrays, Images, Labels, cached, in_memory, stamp
from co2l.data.randomness import stream
from co2l.errors import Co2lError, unknown

Part = Literal["train", "test"]
Builder = Callable[[], tuple[Images, Labels]]

_ELSEWHERE = "or set --data / CO2L_DATA to the folder that holds it"


def data_root(argument: str | None) -> Path:
    """The folder of all datasets: the argument, else CO2L_DATA, else `data` below the current folder."""
    return Path(argument or os.environ.get("CO2L_DATA") or "data").expanduser().absolute()


def load(source: str, part: Part, root: Path) -> Arrays:
    """One part of a dataset, decoded once per data root."""
    if source == "digits":
        return in_memory(*_digits(part))
    if source not in _FINDERS:
        raise unknown("dataset", source, [*_FINDERS, "digits"])
    root = root.absolute()
    state, build = _FINDERS[source](root, part)
    return cached(root / "co2l-cache", f"{source}-{part}-{state}", build)


def _find_cifar10(root: Path, part: Part) -> tuple[str, Builder]:
    folder = root / "cifar-10-batches-py"
    names = [f"data_batch_{i}" for i in range(1, 6)] if part == "train" else ["test_batch"]
    files = [folder / name for name in names]
    if missing := [file for file in files if not file.is_file()]:
        _download("CIFAR10", root, missing)

    def build() -> tuple[Images, Labels]:
        batches = [_cifar_batch(file) for file in files]
        images, labels = zip(*batches, strict=True)
        return np.concatenate(images), np.concatenate(labels)

    return stamp(files), build


_RECONSTRUCT = np.empty(0).__reduce__()[0]


class _ArraysOnly(pickle.Unpickler):
    """Unpickles lists, dictionaries, strings and numpy arrays; anything else a pickle can name is refused."""

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


def _cifar_batch(file: Path) -> tuple[Images, Labels]:
    with _reading(file, "a CIFAR-10 batch"), file.open("rb") as opened:
        batch = _ArraysOnly(opened, encoding="latin1").load()
        pixels, labels = batch["data"], np.asarray(batch["labels"], dtype=np.int64)
        _require(isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8, "its pixels are not bytes")
        return _checked(pixels.reshape(-1, 3, 32, 32), labels, classes=10)


def _find_mnist(root: Path, part: Part) -> tuple[str, Builder]:
    folder, prefix = root / "MNIST" / "raw", "train" if part == "train" else "t10k"

    def plain_or_packed(name: str) -> Path:
        plain, packed = folder / name, folder / f"{name}.gz"
        return packed if packed.is_file() and not plain.is_file() else plain

    files = [plain_or_packed(f"{prefix}-{name}") for name in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    if missing := [file for file in files if not file.is_file()]:
        _download("MNIST", root, missing)

    def build() -> tuple[Images, Labels]:
        images, labels = (_idx(file) for file in files)
        with _reading(files[0], "MNIST's images"):
            return _checked(images.reshape(-1, 1, 28, 28), labels.astype(np.int64), classes=10)

    return stamp(files), build


def _idx(file: Path) -> Images:
    """An array of bytes in MNIST's format: two zeros, type 8, number of axes, their lengths, the bytes."""
    with _reading(file, "an idx file"):
        data = file.read_bytes()
        if file.suffix == ".gz":
            data = gzip.decompress(data)
        _require(len(data) >= 4 and data[:3] == b"\0\0\x08", "its first bytes are not those of an idx file")
        axes = 4 * data[3]
        shape = [int.from_bytes(data[4 + i : 8 + i], "big") for i in range(0, axes, 4)]
        _require(len(data) == 4 + axes + math.prod(shape), f"its length does not fit its shape {shape}")
        return np.frombuffer(data, np.uint8, offset=4 + axes).reshape(shape).copy()  # may be written to


_TINY = "tiny-imagenet-200"


class _TinyFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def listing(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in sorted(path.name for path in (self.path / folder).iterdir())]

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


class _TinyArchive:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = zipfile.ZipFile(path)
        self.files = defaultdict(list)
        for name in sorted(self.archive.namelist()):
            self.files[name.rpartition("/")[0]].append(name.removeprefix(f"{_TINY}/"))

    def listing(self, folder: str) -> list[str]:
        return self.files[f"{_TINY}/{folder}"]

    def read(self, name: str) -> bytes:
        return self.archive.read(f"{_TINY}/{name}")


def _find_tiny_imagenet(root: Path, part: Part) -> tuple[str, Builder]:
    folder, archive = root / _TINY, root / f"{_TINY}.zip"
    if not folder.is_dir() and archive.is_file():
        return stamp([archive]), lambda: _tiny(_TinyArchive, archive, part)
    for needed in ["wnids.txt", "train" if part == "train" else "val/val_annotations.txt"]:
        if not (folder / needed).exists():
            raise Co2lError(
                f"Tiny-ImageNet is missing ({needed})",
                where=str(folder),
                fix=f"put {_TINY}.zip (cs231n.stanford.edu/{_TINY}.zip) into {root}, {_ELSEWHERE}",
            )
    # Adding or removing an image changes its folder's time; 100,000 files need not be asked.
    marks = [folder / "wnids.txt"]
    marks += sorted(folder.glob("train/*/images")) if part == "train" else sorted(folder.glob("val/*"))
    return stamp(marks, (folder / "wnids.txt").read_bytes()), lambda: _tiny(_TinyFolder, folder, part)


def _tiny(opened: type[_TinyFolder] | type[_TinyArchive], path: Path, part: Part) -> tuple[Images, Labels]:
    with _reading(path, "Tiny-ImageNet"):
        tree = opened(path)
        wnids = tree.read("wnids.txt").decode().split()
        class_of = {wnid: i for i, wnid in enumerate(wnids)}
        _require(len(class_of) == len(wnids) == 200, f"wnids.txt has {len(class_of)} classes, not 200")
        if part == "train":
            named = [(name, class_of[w]) for w in wnids for name in tree.listing(f"train/{w}/images")]
            samples = [(name, label) for name, label in named if name.endswith(".JPEG")]
        else:
            lines = tree.read("val/val_annotations.txt").decode().splitlines()
            samples = [(f"val/images/{line.split()[0]}", class_of[line.split()[1]]) for line in lines]
        labels = np.array([label for _, label in samples], dtype=np.int64)
        count = np.bincount(labels, minlength=200)  # equal in the whole dataset; not if it was unpacked in part
        fewest, most = count.min(), count.max()
        _require(fewest == most > 0, f"its classes have {fewest} to {most} images each")
    images = np.empty((len(samples), 3, 64, 64), np.uint8)

    def decode(i: int) -> None:
        name = samples[i][0]
        with _reading(path / name, "an image"), Image.open(io.BytesIO(tree.read(name))) as image:
            _require(image.size == (64, 64), f"it has {image.size} pixels")
            images[i] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)  # some are grayscale

    title, console = f"decoding Tiny-ImageNet ({part})", rich.console.Console(stderr=True)
    with ThreadPoolExecutor() as pool:
        done = pool.map(decode, range(len(samples)))
        for _ in rich.progress.track(done, title, total=len(samples), console=console, transient=True):
            pass
    return images, labels


def _digits(part: Part) -> tuple[Images, Labels]:
    """A fifth of each class, drawn once and for all, is test; the values 0..16 become 0..255."""
    pixels, labels = _scikit_learns_digits()
    test = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        rows = np.flatnonzero(labels == digit)
        order = torch.randperm(len(rows), generator=stream(0, "digits", digit)).numpy()
        test[rows[order[: round(len(rows) / 5)]]] = True
    chosen = test if part == "test" else ~test
    images = np.rint(pixels[chosen] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    return images, labels[chosen].astype(np.int64)


def _scikit_learns_digits() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read from its file: to import scikit-learn takes a second, in every process of a search."""
    package = importlib.util.find_spec("sklearn")
    path = Path(package.origin if package and package.origin else "").parent / "datasets/data/digits.csv.gz"
    if not path.is_file():
        raise Co2lError("scikit-learn's digits are missing", where=str(path), fix="pip install -c constraints.txt -e .")
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-1], table[:, -1]


def _download(dataset: str, root: Path, missing: list[Path]) -> None:
    """By torchvision, with its progress and md5 sums, into a folder of its own; moved when it is whole."""
    from co2l.data.torchvision_import import torchvision  # as slow to import as torch

    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as folder:
            getattr(torchvision.datasets, dataset)(folder, download=True)
            for file in missing:
                file.parent.mkdir(parents=True, exist_ok=True)
                (folder / file.relative_to(root)).replace(file)
    except (OSError, RuntimeError) as error:
        raise Co2lError(
            f"{missing[0].name} is missing and {dataset} cannot be downloaded ({_one_line(error)})",
            where=str(missing[0].parent),
            fix=f"put {', '.join(file.name for file in missing)} there, {_ELSEWHERE}",
        ) from error


def _checked(images: Images, labels: Labels, *, classes: int) -> tuple[Images, Labels]:
    _require(len(images) == len(labels) > 0, f"it has {len(images)} images and {len(labels)} labels")
    _require(labels.min() >= 0 and labels.max() < classes, f"its labels are not all in 0..{classes - 1}")
    return images, labels


def _require(holds: bool | np.bool_, reason: str) -> None:
    if not holds:
        raise ValueError(reason)


@contextlib.contextmanager
def _reading(file: Path, what: str) -> Iterator[None]:
    try:
        yield
    except Co2lError:
        raise
    except Exception as error:  # damaged pickles, archives and images raise almost anything
        raise Co2lError(
            f"not {what} or damaged ({_one_line(error)})",
            where=str(file),
            fix=f"put a whole copy there, {_ELSEWHERE}",
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_FINDERS: dict[str, Callable[[Path, Part], tuple[str, Builder]]] = {
    "cifar10": _find_cifar10,
    "mnist": _find_mnist,
    "tiny_imagenet": _find_tiny_imagenet,
}
