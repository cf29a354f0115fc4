"""The benchmarks: which dataset, cut into which tasks, seen through which augmentation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from co2l.data.augmentation import Augmentation
from co2l.data.cache import Arrays
from co2l.data.class_order import FIXED, ClassOrder, classes_in_order
from co2l.data.sources.reading import Part
from co2l.errors import Co2lError
from co2l.plugins import Registry


@dataclass(frozen=True)
class Benchmark:
    """A stream of tasks: each brings new classes (`scenario` "class") or the same ones in another domain ("domain")."""

    name: str
    source: str | Callable[[Path, Part], Arrays]  # the dataset: a name in co2l.data.sources, or what reads a part of it
    scenario: Literal["class", "domain"]
    tasks: int
    classes_per_task: int
    num_classes: int  # the classifier's outputs
    image_shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: Augmentation
    examples: int = 0  # of the training set, for estimates without the data; 0 if that is not known
    domain: Literal["rotation", "permutation"] = "rotation"  # domain only: what is done to all images of a task
    rotation: Literal["nearest", "bilinear"] = "nearest"
    class_order: tuple[int, ...] = ()  # the stream's class i is the dataset's class_order[i]; empty: they are the same
    # settings that suit it, whatever the method; each method takes those that it has
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    digest: str = ""  # of the file that describes it, if one does

    @property
    def plain(self) -> bool:
        """Whether its pixels are seen as they are: mean 0 and deviation 1."""
        return set(self.mean) == {0.0} and set(self.std) == {1.0}

    def arranged(self, tasks: int, class_order: ClassOrder, seed: int, *, where: str = "") -> Benchmark:
        """The same data in so many tasks, with the classes in this order; `seed` is that of the run."""
        if (tasks, class_order) == (self.tasks, FIXED):
            return self
        if self.scenario == "domain":
            if class_order != FIXED:
                what = f"class_order: every task of {self.name} has all classes, got {class_order}"
                raise Co2lError(what, where=where, fix="leave it out, or use a class-incremental benchmark")
            return replace(self, tasks=tasks)
        if self.num_classes % tasks:
            parts = [str(n) for n in range(2, self.num_classes + 1) if self.num_classes % n == 0]
            what = f"tasks: the {self.num_classes} classes of {self.name} cannot be cut into {tasks} equal tasks"
            raise Co2lError(what, where=where, fix=f"use {', '.join(parts)}")
        order = classes_in_order(class_order, self.num_classes, seed, where=where)
        return replace(self, tasks=tasks, classes_per_task=self.num_classes // tasks, class_order=order)

    def original(self, labels: Tensor) -> Tensor:
        """The dataset's classes of these classes of the stream."""
        return torch.tensor(self.class_order, device=labels.device)[labels] if self.class_order else labels

    @property
    def first_task(self) -> int:
        """About how many training examples the first task has; 0 if that is not known."""
        return self.examples if self.scenario == "domain" else self.examples // self.tasks


_DIGITS = dict(encoder="digits_conv", epochs=10, E_0=20, E_t=10, probe_epochs=20, buffer_size=100)
_ALL = [
    Benchmark(
        name="seq_cifar10",
        source="cifar10",
        scenario="class",
        tasks=5,
        classes_per_task=2,
        num_classes=10,
        image_shape=(3, 32, 32),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2023, 0.1994, 0.2010),
        augmentation=Augmentation(crop_scale=(0.2, 1.0), flip=0.5, jitter=0.8, gray=0.2),
        examples=50_000,
        defaults=dict(encoder="resnet18", epochs=50, augment="shift_flip"),
    ),
    # Not in the paper. Its follow-ups cut it into 5, 10 or 20 tasks: the setting `tasks`.
    Benchmark(
        name="seq_cifar100",
        source="cifar100",
        scenario="class",
        tasks=10,
        classes_per_task=10,
        num_classes=100,
        image_shape=(3, 32, 32),
        mean=(0.5071, 0.4867, 0.4408),
        std=(0.2675, 0.2565, 0.2761),
        augmentation=Augmentation(crop_scale=(0.2, 1.0), flip=0.5, jitter=0.8, gray=0.2),
        examples=50_000,
        defaults=dict(encoder="resnet18", epochs=50, augment="shift_flip"),
    ),
    Benchmark(
        name="seq_tiny_imagenet",
        source="tiny_imagenet",
        scenario="class",
        tasks=10,
        classes_per_task=20,
        num_classes=200,
        image_shape=(3, 64, 64),
        mean=(0.4802, 0.4480, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        augmentation=Augmentation(crop_scale=(0.1, 1.0), flip=0.5, jitter=0.8, gray=0.2, blur=0.5),
        examples=100_000,
        defaults=dict(encoder="resnet18", epochs=100, augment="shift_flip"),
    ),
    # Appendix A lists flips and colour for every dataset; the released code only crops digits, as a mirrored
    # digit is another sign or none.
    Benchmark(
        name="r_mnist",
        source="mnist",
        scenario="domain",
        tasks=20,
        classes_per_task=10,
        num_classes=10,
        image_shape=(1, 28, 28),
        mean=(0.0,),
        std=(1.0,),
        augmentation=Augmentation(crop_scale=(0.7, 1.0)),
        examples=60_000,
        defaults=dict(encoder="mnist_conv", epochs=1, batch_size=128, minibatch_size=128, augment="none"),
    ),
    # Every task shuffles the pixels in its own way, which leaves nothing for a convolution or a crop to see.
    Benchmark(
        name="p_mnist",
        source="mnist",
        scenario="domain",
        tasks=20,
        classes_per_task=10,
        num_classes=10,
        image_shape=(1, 28, 28),
        mean=(0.0,),
        std=(1.0,),
        augmentation=Augmentation(crop_scale=(1.0, 1.0)),
        examples=60_000,
        domain="permutation",
        defaults=dict(encoder="mnist_mlp", epochs=1, batch_size=128, minibatch_size=128, augment="none"),
    ),
    # Not in the paper: small enough to search in minutes, and nothing has to be downloaded.
    Benchmark(
        name="seq_digits",
        source="digits",
        scenario="class",
        tasks=5,
        classes_per_task=2,
        num_classes=10,
        image_shape=(1, 8, 8),
        mean=(0.0,),
        std=(1.0,),
        augmentation=Augmentation(crop_scale=(0.7, 1.0)),
        examples=1_438,
        defaults=_DIGITS,
    ),
    Benchmark(
        name="r_digits",
        source="digits",
        scenario="domain",
        tasks=5,
        classes_per_task=10,
        num_classes=10,
        image_shape=(1, 8, 8),
        mean=(0.0,),
        std=(1.0,),
        augmentation=Augmentation(crop_scale=(0.7, 1.0)),
        examples=1_438,
        # A stroke is one or two of 8 pixels wide: the nearest pixel drops or doubles parts of it.
        rotation="bilinear",
        defaults=_DIGITS,
    ),
]


def _wrong(name: str, thing: object) -> str:
    if not isinstance(thing, Benchmark):
        return f"is a {type(thing).__name__} instead of a Benchmark"
    return "" if thing.name == name else f"calls itself '{thing.name}'"


BENCHMARKS: Registry[Benchmark] = Registry("benchmark", {benchmark.name: benchmark for benchmark in _ALL}, _wrong)


def benchmark(name: str, *, where: str = "") -> Benchmark:
    """The benchmark of that name, or the one that the YAML file at that path describes."""
    if name.endswith((".yaml", ".yml")):
        from co2l.data.benchmark_file import read_benchmark  # which makes benchmarks

        return read_benchmark(name, where=where)
    return BENCHMARKS.find(name, where=where)


def standardise(images: Tensor, benchmark: Benchmark) -> Tensor:
    """(images − mean) / std by channel, on the images' device, for values in [0, 1] and for bytes."""
    if images.dtype == torch.uint8:
        images = images.to(torch.float32) / 255
    if benchmark.plain:
        return images
    mean, std = _statistics(benchmark.mean, benchmark.std, images.device, images.dtype)
    return (images - mean) / std


@functools.cache  # else every batch waits for two copies to the device
def _statistics(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    columns = torch.tensor([mean, std], device=device, dtype=dtype)[..., None, None]
    return columns[0], columns[1]
