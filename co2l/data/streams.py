"""Task streams: what each task shows for training, and what is held out to judge it.

A search sees training samples only: one part to train on, the rest for validation; the test files are not
even opened. An evaluation trains on all of them and is judged on the test set.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.cache import Arrays
from co2l.data.randomness import stream
from co2l.data.sources import load
from co2l.errors import Co2lError, unknown


@dataclass(frozen=True)
class Split:
    """Which samples a stream shows. An evaluation has no validation samples and reads neither number."""

    kind: Literal["search", "evaluation"]
    fraction: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ("search", "evaluation"):
            raise unknown("split", self.kind, ["search", "evaluation"])
        if self.kind == "evaluation":  # one evaluation is like another, also in a content key
            object.__setattr__(self, "fraction", 0.0)
            object.__setattr__(self, "seed", 0)
        elif not 0 < self.fraction < 1:
            raise Co2lError(f"the validation fraction is {self.fraction}", fix="it must lie between 0 and 1")

    @property
    def judge(self) -> Literal["val", "test"]:
        """What accuracies are measured on, as metrics are named."""
        return "val" if self.kind == "search" else "test"


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of one tensor of bytes, which may be mapped from a file; nothing is copied until gathered."""

    images: Tensor  # uint8 [N, C, H, W], contiguous
    rows: Tensor  # int64 [n] into images
    labels: Tensor  # int64 [n], the class to predict

    def __len__(self) -> int:
        return len(self.rows)

    def gather(self, index: Tensor) -> Tensor:
        """The images of samples `index`, as bytes."""
        return self.images.index_select(0, self.rows[index])  # several times faster than images[…]

    def to(self, device: torch.device | str) -> Samples:
        """The same samples there; on another device, only their own images."""
        if torch.device(device).type == self.images.device.type == "cpu":
            return self
        rows = torch.arange(len(self), device=device)
        images = self.images.index_select(0, self.rows)
        return Samples(images.to(device), rows, self.labels.to(device))


class TaskStream:
    """The tasks of one benchmark in their order. Made by `open_stream`."""

    def __init__(self, benchmark: Benchmark, split: Split, seed: int, train: Arrays, test: Arrays | None) -> None:
        self.benchmark, self.split = benchmark, split
        self.fingerprint = train.fingerprint
        self.angles: tuple[float, ...] = ()
        if benchmark.scenario == "domain":
            draw = torch.rand(benchmark.tasks, generator=stream(seed, "angles"), dtype=torch.float64)
            self.angles = tuple((180 * draw).tolist())
        everything = torch.arange(len(train.labels))
        if test is None:
            chosen = validation_rows(len(everything), split)
            self._train = train, everything[~torch.isin(everything, chosen)]
            self._held_out = train, chosen
        else:
            self._train = train, everything
            self._held_out = test, torch.arange(len(test.labels))
        self._forgotten = -1

    def __len__(self) -> int:
        return self.benchmark.tasks

    def classes(self, t: int) -> tuple[int, ...]:
        """The classes of task `t`."""
        self._check(t)
        n = self.benchmark.classes_per_task
        first = t * n if self.benchmark.scenario == "class" else 0
        return tuple(range(first, first + n))

    def train(self, t: int) -> Samples:
        """The training samples of task `t`, until it is forgotten."""
        self._check(t)
        if t <= self._forgotten:
            raise RuntimeError(f"task {t} is over: of its training samples only those in a buffer are left")
        return self._task(t, *self._train)

    def held_out(self, t: int) -> Samples:
        """The samples that judge task `t`: validation in a search, test in an evaluation."""
        self._check(t)
        return self._task(t, *self._held_out)

    def revisit(self, t: int) -> Samples:
        """The training samples of task `t`, over or to come: for a probe that asks what a representation is worth."""
        self._check(t)
        return self._task(t, *self._train)

    def forget(self, t: int) -> None:
        """End task `t`: its training samples, and those of all before it, are gone."""
        self._check(t)
        self._forgotten = max(self._forgotten, t)

    def _check(self, t: int) -> None:
        if not 0 <= t < len(self):
            raise IndexError(f"{self.benchmark.name} has tasks 0 to {len(self) - 1}, not {t}")

    def _task(self, t: int, arrays: Arrays, rows: Tensor) -> Samples:
        labels = arrays.labels[rows]
        if self.benchmark.scenario == "domain":
            images = rotate(arrays.images.index_select(0, rows), self.angles[t], self.benchmark.rotation)
            return Samples(images, torch.arange(len(rows)), labels)
        ours = torch.isin(labels, torch.tensor(self.classes(t)))
        return Samples(arrays.images, rows[ours], labels[ours])


def open_stream(name: str, *, split: Split, seed: int, data: Path) -> TaskStream:
    """The stream of benchmark `name` below the data root; `seed` draws the angles of rotated benchmarks."""
    chosen = benchmark(name)
    train = load(chosen.source, "train", data)
    test = load(chosen.source, "test", data) if split.kind == "evaluation" else None
    return TaskStream(chosen, split, seed, train, test)


def validation_rows(n: int, split: Split) -> Tensor:
    """round(fraction × n) of n training samples, whatever their class, in ascending order."""
    order = torch.randperm(n, generator=stream(split.seed, "validation"))
    return order[: round(split.fraction * n)].sort().values


def rotate(images: Tensor, angle: float, how: Literal["nearest", "bilinear"]) -> Tensor:
    """All images by `angle` degrees, black where nothing was, as torchvision rotates them one by one."""
    from co2l.data.torchvision_import import torchvision  # as slow to import as torch, and only needed here

    functional, modes = torchvision.transforms.functional, torchvision.transforms.InterpolationMode
    if how == "bilinear":
        rotated: Tensor = functional.rotate(images, angle, interpolation=modes.BILINEAR)
        return rotated
    # "Nearest" takes every pixel from one place or from nowhere. Rotating one image of places tells which; a
    # lookup then does for all images what would need a grid of floats per image.
    n, channels, height, width = images.shape
    places = torch.arange(1, height * width + 1, dtype=torch.float32).reshape(1, 1, height, width)
    origin = functional.rotate(places, angle, interpolation=modes.NEAREST).long().flatten()
    pixels = images.reshape(n, channels, -1)[:, :, (origin - 1).clamp(min=0)]
    pixels[:, :, origin == 0] = 0
    return pixels.reshape(images.shape)
