"""Plug-ins as users write them, outside the repository: a method and a benchmark in a file, and the same packaged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from co2l import plugins
from co2l.data.benchmarks import BENCHMARKS
from co2l.imports import active, drop
from co2l.learning.methods import METHODS

SPACE: dict[str, Any] = {
    "benchmark": "stripes",
    "method": "weighted",
    "settings": {"epochs": 3, "buffer_size": 20},
    "axes": {"weight": [0.5, 1.0]},
}

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
REGISTER_METHOD = """
from co2l.learning.methods import METHODS

METHODS.register("weighted", Weighted)
"""
REGISTER_BENCHMARK = """
from co2l.data.benchmarks import BENCHMARKS

BENCHMARKS.register("stripes", STRIPES)
"""


def write_file(folder: Path, name: str = "own.py") -> Path:
    """Both in one file for --import."""
    benchmark = BENCHMARK.partition("\n\n")[2]  # a file has one docstring
    return _written(folder / name, METHOD + "\n\n" + benchmark + REGISTER_METHOD + REGISTER_BENCHMARK)


def write_benchmark(folder: Path) -> Path:
    """The benchmark alone in a file for --import."""
    return _written(folder / "stripes.py", BENCHMARK + REGISTER_BENCHMARK)


def write_package(folder: Path, *, benchmark: bool = True) -> Path:
    """Both, or the method alone, as an installed package: below `folder`, which has to be on Python's path."""
    module, info = folder / "their_plugins", folder / "their_plugins-1.0.dist-info"
    for each in (module, info):
        each.mkdir(parents=True)
    _written(module / "__init__.py", "")
    _written(module / "weighted.py", METHOD)
    points = "[co2l.methods]\nweighted = their_plugins.weighted:Weighted\n"
    if benchmark:
        _written(module / "stripes.py", BENCHMARK)
        points += "[co2l.benchmarks]\nstripes = their_plugins.stripes:STRIPES\n"
    _written(info / "METADATA", "Metadata-Version: 2.1\nName: their-plugins\nVersion: 1.0\n")
    _written(info / "entry_points.txt", points)
    return folder


def forget() -> None:
    """No import is known any more, and the package is looked for again, wherever Python's path leads now."""
    for each in active():
        drop(each.top)
    plugins.installed.cache_clear()
    plugins._installed_plugin.cache_clear()
    for registry, name in ((METHODS, "weighted"), (BENCHMARKS, "stripes")):
        registry.forget(name)
    for module in [name for name in sys.modules if name.partition(".")[0] == "their_plugins"]:
        del sys.modules[module]


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
