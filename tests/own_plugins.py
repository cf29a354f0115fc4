"""Plug-ins as users write them, outside the repository: a method and a benchmark in a file, and the same packaged."""

from __future__ import annotations

from pathlib import Path

METHOD = '''\
"""ER whose replayed examples have a weight."""

from pydantic import Field
from torch.nn import functional as F

from co2l.data import buffer
from co2l.learning.config import Every
from co2l.learning.methods.rehearsal import OnlineSettings, Rehearsal


class WeightedSettings(OnlineSettings):
    weight: Every[float] = Field(1.0, ge=0, description="weight of replayed examples")


class Weighted(Rehearsal):
    name = "weighted"
    settings_type = WeightedSettings

    def learn(self, now, lr, generator):
        loss = F.cross_entropy(self.network(self.view(now.images, generator)), now.labels)
        if len(self.memory):
            past = self.recall(self.settings.minibatch_size, generator)
            replayed = F.cross_entropy(self.network(self.view(past.images, generator)), past.labels)
            loss = loss + self.settings.weight * replayed
        self.optimiser.descend(loss, lr)
        self.memory = buffer.add(self.memory, now, self.settings.buffer_size, "reservoir", generator)
        return {"ce": loss}
'''
BENCHMARK = '''\
"""Stripes: four classes of 8 × 8 images, told apart by where a bright line is."""

import numpy as np

from co2l.data.augmentation import Augmentation
from co2l.data.benchmarks import Benchmark
from co2l.data.cache import in_memory


def load(root, part):
    rng = np.random.default_rng(0 if part == "train" else 1)
    labels = np.repeat(np.arange(4), 40)
    images = rng.integers(0, 100, (160, 1, 8, 8)).astype(np.uint8)
    images[np.arange(160), 0, 2 * labels] = 255
    return in_memory(images, labels)


STRIPES = Benchmark(
    name="stripes",
    source=load,
    scenario="class",
    tasks=2,
    classes_per_task=2,
    num_classes=4,
    image_shape=(1, 8, 8),
    mean=(0.0,),
    std=(1.0,),
    augmentation=Augmentation(crop_scale=(0.9, 1.0)),
    examples=160,
)
'''
REGISTERED = """
from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.methods import METHODS

METHODS.register("weighted", Weighted)
BENCHMARKS.register("stripes", STRIPES)
"""


def write_file(folder: Path, name: str = "own.py") -> Path:
    """Both in one file for --import."""
    benchmark = BENCHMARK.partition("\n\n")[2]  # a file has one docstring
    (folder / name).write_text(METHOD + "\n\n" + benchmark + REGISTERED, encoding="utf-8")
    return folder / name


def write_package(folder: Path, name: str = "their-plugins", version: str = "1.0") -> Path:
    """Both as an installed package: below `folder`, which has to be on Python's path."""
    module = name.replace("-", "_")
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text("", encoding="utf-8")
    (folder / module / "weighted.py").write_text(METHOD, encoding="utf-8")
    (folder / module / "stripes.py").write_text(BENCHMARK, encoding="utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    points = f"[co2l.methods]\nweighted = {module}.weighted:Weighted\n"
    points += f"[co2l.benchmarks]\nstripes = {module}.stripes:STRIPES\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    return folder
