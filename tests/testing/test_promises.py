"""The promises notice what they are for: a method, benchmark, encoder or algorithm that breaks one is told so."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import call_here
from own_plugins import write_file
from torch import Tensor, nn

from co2l.data import buffer
from co2l.data.benchmarks import BENCHMARKS, benchmark
from co2l.data.cache import Arrays
from co2l.data.examples import Examples, concatenate
from co2l.data.sources import load
from co2l.imports import active, drop
from co2l.learning.encoders import ENCODERS, Encoder
from co2l.learning.methods import METHODS
from co2l.learning.methods.er import ER
from co2l.search.algorithms.random_search import RandomSearch
from co2l.search.algorithms.registry import ALGORITHMS
from co2l.testing import promises
from co2l.testing.runs import instead


def broken(registry: Any, name: str, thing: Any, promise: str, folder: Path) -> str:
    """What the promise says of a thing that breaks it, under one of our names."""
    with instead(registry, name, thing), pytest.raises(AssertionError) as caught:
        promises(registry.kind)[promise](name, folder)
    return str(caught.value).splitlines()[0]


class Hoarder(ER):
    """Keeps whole tasks beside its buffer."""

    def end_task(self, t: int, task: Examples) -> None:  # noqa: ARG002
        self.kept = [*getattr(self, "kept", []), task]

    def mixed_in(self) -> Examples:
        return concatenate(self.kept) if getattr(self, "kept", None) else super().mixed_in()


class Greedy(ER):
    """Takes more examples than its buffer may hold."""

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:
        losses = super().learn(now, lr, generator)
        self.memory = buffer.add(self.memory, now, self.settings.buffer_size + 5, "reservoir", generator)
        return losses


class Forgetful(ER):
    """Leaves its buffer out of its state."""

    def state(self) -> dict[str, Any]:
        return {**super().state(), "memory": buffer.empty(self.benchmark.image_shape, self.device).state()}


class Unlucky(ER):
    """Draws from one generator through the whole run."""

    drawn = torch.Generator().manual_seed(0)

    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:  # noqa: ARG002
        return super().learn(now, lr, self.drawn)


class Lazy(ER):
    def learn(self, now: Examples, lr: float, generator: torch.Generator) -> dict[str, Tensor]:  # noqa: ARG002
        return super().learn(now, 0.0, generator)


@pytest.mark.parametrize(
    ("kind", "promise", "said"),
    [
        (Hoarder, "never sees a past task outside its buffer", "it looks at the examples of a task after"),
        (Greedy, "keeps no more images than its buffer may hold", " images are in its state, with a buffer of 13"),
        (Forgetful, "gives the same bits when it is left again and again", "a run that was left and continued"),
        (Unlucky, "gives the same bits when it is left again and again", "a run that was left and continued"),
        (Lazy, "learns what it was shown last", "% of two classes that were just learned are right"),
    ],
)
def test_a_method_that_cheats(kind: type[ER], promise: str, said: str, tmp_path: Path) -> None:
    assert said in broken(METHODS, "er", kind, promise, tmp_path)


class Together(Encoder):
    """Compares images with the mean of their batch, and has a part that nothing uses."""

    dim, projection = 4, (4, 4)

    def __init__(self, shape: tuple[int, int, int], width: int) -> None:
        super().__init__()
        self.fc, self.idle = nn.Linear(shape[0] * shape[1] * shape[2], 4), nn.Linear(width, 1)

    def compute(self, x: Tensor) -> Tensor:
        h: Tensor = self.fc(x.flatten(1))
        return h - h.mean(0)


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        ("sees each image by itself once learned", "depends on the rest of its batch"),
        ("learns in every part", "no gradient comes to idle.weight, idle.bias"),
    ],
)
def test_an_encoder_that_cheats(promise: str, said: str, tmp_path: Path) -> None:
    assert said in broken(ENCODERS, "digits_conv", Together, promise, tmp_path)


@pytest.mark.parametrize(
    ("keys", "promise", "said"),
    [
        ({"examples": 7}, "counts its training examples", "examples=7, but there are 1438"),
        ({"std": (0.0,)}, "standardises every channel", "std must be above 0"),
        ({"num_classes": 12}, "has well formed tasks", "its tasks are not all of its classes"),
        ({"image_shape": (1, 9, 9)}, "has well formed tasks", "images are (1, 8, 8), not (1, 9, 9)"),
    ],
)
def test_a_benchmark_that_is_wrong(keys: dict[str, Any], promise: str, said: str, tmp_path: Path) -> None:
    assert said in broken(BENCHMARKS, "seq_digits", replace(benchmark("seq_digits"), **keys), promise, tmp_path)


def test_a_benchmark_whose_data_change(tmp_path: Path) -> None:
    counted = itertools.count()

    def drifting(root: Path, part: Any) -> Arrays:
        digits = load("digits", part, root)
        return replace(digits, fingerprint=f"{next(counted):064}")

    changed = replace(benchmark("seq_digits"), source=drifting)
    promise = "is the same whenever it is opened"
    assert "its data differ" in broken(BENCHMARKS, "seq_digits", changed, promise, tmp_path)


def test_an_algorithm_with_a_memory_of_its_own(tmp_path: Path) -> None:
    class Stateful(RandomSearch):
        asked = itertools.count()

        def suggest(self, entries: Any, tried: Any, seed: int) -> Iterator[Any]:
            return super().suggest(entries, tried, seed + next(self.asked))

    promise = "suggests by its arguments alone"
    assert "give other suggestions" in broken(ALGORITHMS, "random", Stateful, promise, tmp_path)


def test_a_plug_ins_file_is_checked_by_name(tmp_path: Path) -> None:
    write_file(tmp_path)
    try:
        done = call_here("co2l.testing.__main__", "stripes", "--import", "own.py", cwd=tmp_path)
    finally:
        for each in active():
            drop(each.top)
    assert done.returncode == 0, done.stdout
    first, *lines, last = done.stdout.splitlines()
    assert first.startswith("benchmark stripes (own ")
    assert "  kept    has well formed tasks" in lines
    assert last == f"{len(lines)} of {len(lines)} promises are kept"


def test_a_broken_promise_is_a_line_and_exit_code_1(tmp_path: Path) -> None:
    with instead(BENCHMARKS, "seq_digits", replace(benchmark("seq_digits"), examples=7)):
        done = call_here("co2l.testing.__main__", "seq_digits", cwd=tmp_path)
    assert done.returncode == 1
    assert "  BROKEN  counts its training examples: examples=7, but there are 1438\n" in done.stdout
    assert done.stdout.endswith("5 of 6 promises are kept\n")
    unknown = call_here("co2l.testing.__main__", "seq_digit", cwd=tmp_path)
    assert (unknown.returncode, unknown.stderr) == (2, "co2l: unknown name 'seq_digit'; did you mean 'seq_digits'?\n")
