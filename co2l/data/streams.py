"""A task stream: the training examples of each task, and those held out to evaluate it.

A search sees training examples only: one part to train on, the rest for validation. It does not even open the test
files. An evaluation trains on all training examples and is evaluated on the test set.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.cache import Arrays
from co2l.data.examples import Examples, concatenate
from co2l.data.randomness import generator_for
from co2l.data.sources import load
from co2l.errors import Co2lError, unknown


@dataclass(frozen=True)
class Split:
    """Which examples a stream shows. An evaluation has no validation examples and reads none of the rest.

    Drawn by class, the validation examples of a class depend on no other class, nor does what is computed up to a task
    on the data of later ones.
    """

    kind: Literal["search", "evaluation"]
    fraction: float = 0.1
    seed: int = 0
    by: Literal["all", "class"] = "all"

    def __post_init__(self) -> None:
        if self.kind not in ("search", "evaluation"):
            raise unknown("split", self.kind, ["search", "evaluation"])
        if self.kind == "evaluation":  # all evaluations have the same content key
            object.__setattr__(self, "fraction", 0.0)
            object.__setattr__(self, "seed", 0)
            object.__setattr__(self, "by", "all")
        elif not 0 < self.fraction < 1:
            raise Co2lError(f"the validation fraction is {self.fraction}", fix="it must lie between 0 and 1")

    def as_dict(self) -> dict[str, Any]:
        """What a key holds of it."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("by", "all")}

    @property
    def evaluation_split(self) -> Literal["val", "test"]:
        """What accuracies are measured on, as metrics are named."""
        return "val" if self.kind == "search" else "test"


class TaskStream:
    """The tasks of one benchmark in their order, all or the first ones. Made by `open_stream`."""

    def __init__(
        self,
        benchmark: Benchmark,
        split: Split,
        seed: int,
        train: Arrays,
        test: Arrays | None,
        until: int | None = None,
    ) -> None:
        """`train` and `test` need no examples of classes that come after the first `until` tasks."""
        self.benchmark, self.split = benchmark, split
        self._length = until or benchmark.tasks
        self._fingerprints = [train.fingerprint] * self._length
        if split.by == "class" and benchmark.scenario == "class":
            self._fingerprints = _fingerprints(train, benchmark, self._length)
        chosen = None if test is not None else validation_rows(train.labels, split)
        train, test = _in_order(train, benchmark), test and _in_order(test, benchmark)
        self.angles: tuple[float, ...] = ()
        self.seed = seed
        if benchmark.scenario == "domain" and benchmark.domain == "rotation":
            draw = torch.rand(benchmark.tasks, generator=generator_for(seed, "angles"), dtype=torch.float64)
            self.angles = tuple((180 * draw).tolist())
        everything = torch.arange(len(train.labels))
        if test is None:
            assert chosen is not None
            self._train = train, everything[~torch.isin(everything, chosen)]
            self._held_out = train, chosen
        else:
            self._train = train, everything
            self._held_out = test, torch.arange(len(test.labels))
        self._forgotten = -1

    def __len__(self) -> int:
        return self._length

    @property
    def fingerprint(self) -> str:
        """Of the training data of all tasks."""
        return self._fingerprints[-1]

    def fingerprint_of(self, t: int) -> str:
        """Of the training data that a state after task `t` depends on: all, unless each class is split by itself."""
        self._check(t)
        return self._fingerprints[t]

    def classes(self, t: int) -> tuple[int, ...]:
        """The classes of task `t`."""
        self._check(t)
        n = self.benchmark.classes_per_task
        first = t * n if self.benchmark.scenario == "class" else 0
        return tuple(range(first, first + n))

    def sizes(self, t: int) -> tuple[int, int]:
        """How many examples task `t` trains on and is evaluated on, without making any of its images."""
        self._check(t)
        return self._count(t, *self._train), self._count(t, *self._held_out)

    def train(self, t: int) -> Examples:
        """The training examples of task `t`, until it is forgotten."""
        self._check(t)
        if t <= self._forgotten:
            raise RuntimeError(f"task {t} is over: only those of its training examples in a buffer are left")
        return self._task(t, *self._train)

    def everything(self) -> Examples:
        """The training examples of all tasks, for a method that learns them together."""
        return concatenate([self.train(t) for t in range(len(self))])

    def held_out(self, t: int) -> Examples:
        """The examples that task `t` is evaluated on: validation in a search, test in an evaluation."""
        self._check(t)
        return self._task(t, *self._held_out)

    def revisit(self, t: int) -> Examples:
        """The training examples of task `t`, past or future, for probes that evaluate a representation on all tasks."""
        self._check(t)
        return self._task(t, *self._train)

    def forget(self, t: int) -> None:
        """End task `t`: its training examples and those of earlier tasks are no longer available."""
        self._check(t)
        self._forgotten = max(self._forgotten, t)

    def _check(self, t: int) -> None:
        if not 0 <= t < len(self):
            raise IndexError(f"{self.benchmark.name} has tasks 0 to {len(self) - 1}, not {t}")

    def _count(self, t: int, arrays: Arrays, rows: Tensor) -> int:
        return len(rows) if self.benchmark.scenario == "domain" else int(self._ours(t, arrays.labels[rows]).sum())

    def _ours(self, t: int, labels: Tensor) -> Tensor:
        return torch.isin(labels, torch.tensor(self.classes(t)))

    def _task(self, t: int, arrays: Arrays, rows: Tensor) -> Examples:
        labels = arrays.labels[rows]
        if self.benchmark.scenario == "domain":
            images = self._in_domain(t, arrays.images.index_select(0, rows))
            return Examples(images, labels, torch.full_like(labels, t))
        ours = self._ours(t, labels)
        labels = labels[ours]
        return Examples(arrays.images, labels, torch.full_like(labels, t), rows[ours])

    def _in_domain(self, t: int, images: Tensor) -> Tensor:
        """The images as task `t` shows them."""
        if self.benchmark.domain == "rotation":
            return rotate(images, self.angles[t], self.benchmark.rotation)
        n, channels, height, width = images.shape
        order = torch.randperm(height * width, generator=generator_for(self.seed, "permutation", t))
        pixels = images.reshape(n, channels, -1).numpy()
        return torch.from_numpy(np.take(pixels, order.numpy(), axis=2)).reshape(
            images.shape
        )  # torch takes 3 times longer


def open_stream(of: str | Benchmark, *, split: Split, seed: int, data: Path, until: int | None = None) -> TaskStream:
    """The stream of a benchmark, or of the one so named, below the data root; `seed` draws domains.

    With `until` it has that many tasks, and the data of classes that come later are not in it.
    """
    chosen = benchmark(of) if isinstance(of, str) else of
    classes = None
    if until is not None and chosen.scenario == "class":
        order = chosen.class_order or range(chosen.num_classes)
        classes = frozenset(order[: until * chosen.classes_per_task])
    train = load(chosen.source, "train", data, classes)
    test = load(chosen.source, "test", data, classes) if split.kind == "evaluation" else None
    return TaskStream(chosen, split, seed, train, test, until)


def _fingerprints(arrays: Arrays, benchmark: Benchmark, tasks: int) -> list[str]:
    """By task, the digest of the examples of all classes up to it, each class by itself and in the stream's order."""
    digest, found = hashlib.sha256(), []
    order = benchmark.class_order or range(benchmark.num_classes)
    for t in range(tasks):
        for label in order[t * benchmark.classes_per_task : (t + 1) * benchmark.classes_per_task]:
            images = arrays.images[arrays.labels == label].contiguous().numpy()
            digest.update(f"class {label} {images.dtype.str}{images.shape}".encode())
            digest.update(images.data.cast("B") if images.size else b"")
        found.append(digest.copy().hexdigest())
    return found


def _in_order(arrays: Arrays, benchmark: Benchmark) -> Arrays:
    """With the classes numbered as they come, so that the tasks that follow hold classes that follow."""
    if not benchmark.class_order:
        return arrays
    return replace(arrays, labels=torch.tensor(benchmark.class_order).argsort()[arrays.labels])


def validation_rows(labels: Tensor, split: Split) -> Tensor:
    """A fraction of the training examples, rounded, in ascending order: drawn from all of them, or from each class."""
    if split.by == "all":
        return _drawn(torch.arange(len(labels)), split, "validation").sort().values
    classes = [int(label) for label in labels.unique()]
    each = [_drawn((labels == c).nonzero().squeeze(1), split, "validation", c) for c in classes]
    return torch.cat(each).sort().values


def _drawn(rows: Tensor, split: Split, *named: str | int) -> Tensor:
    order = torch.randperm(len(rows), generator=generator_for(split.seed, *named))
    return rows[order[: round(split.fraction * len(rows))]]


def rotate(images: Tensor, angle: float, how: Literal["nearest", "bilinear"]) -> Tensor:
    """All images rotated by `angle` degrees, as torchvision does one by one; what comes in is black."""
    from co2l.data.torchvision_import import torchvision  # as slow to import as torch, and only needed here

    functional, modes = torchvision.transforms.functional, torchvision.transforms.InterpolationMode
    if how == "bilinear":
        rotated: Tensor = functional.rotate(images, angle, interpolation=modes.BILINEAR)
        return rotated
    # "Nearest" copies every pixel from one other pixel or leaves it black. Rotating one image of pixel numbers shows
    # which; a lookup then serves all images, where torchvision needs a grid of floats for each.
    n, channels, height, width = images.shape
    numbers = torch.arange(1, height * width + 1, dtype=torch.float32).reshape(1, 1, height, width)
    origin = functional.rotate(numbers, angle, interpolation=modes.NEAREST).long().flatten()
    pixels = images.reshape(n, channels, -1)[:, :, (origin - 1).clamp(min=0)]
    pixels[:, :, origin == 0] = 0
    return pixels.reshape(images.shape)
