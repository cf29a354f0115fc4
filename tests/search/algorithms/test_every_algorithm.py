"""Every registered algorithm keeps every promise, and so does one that only this file knows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from spaces import space_of

from co2l.errors import Co2lError
from co2l.search.algorithms.optuna_samplers import OptunaSampler
from co2l.search.algorithms.registry import ALGORITHMS, algorithm_of
from co2l.search.record.entries import Entry
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation
from co2l.search.space.document import Value
from co2l.search.space.plan import plan
from co2l.search.space.space import Configuration, Space, load
from co2l.testing import algorithms as promises
from co2l.testing.fixtures import Keeps


class FarFromTried:
    """A toy: of the grid's points the one that shares the fewest values with those tried; the first of equal ones."""

    enumerable = False
    adaptive = True

    def __init__(self, space: Space, reverse: bool = False) -> None:
        self._space, self._reverse = space, reverse

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        del seed
        assert all(entry.key for entry in entries)
        points = dict.fromkeys(self._space.configuration(trial.values) for trial in self._space.trials())
        listed = sorted(points, reverse=self._reverse)
        listed.sort(key=lambda point: sum(pair in other for pair in point for other in tried))
        yield from map(dict, listed)


class Diagonal:
    """A toy that lists its points: the k-th of each axis, for every buffer size."""

    enumerable = True
    adaptive = False

    def __init__(self, space: Space) -> None:
        self._space = space

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        del entries, tried, seed
        sizes = self._space.lists(["buffer_size"])[0]
        for eta, kappa in zip(*self._space.lists(["eta", "kappa"]), strict=False):
            for size in sizes:
                point = {"eta": eta, "kappa": kappa, "buffer_size": size}
                yield {name: point[name] for name in self._space.drawn_axes}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "far", FarFromTried)
    monkeypatch.setitem(ALGORITHMS, "diagonal", Diagonal)


@pytest.fixture(autouse=True)
def _unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna computes under `torch.device("cpu")`, the device anyway; to ask for it is a fifth of the time of `gp`."""
    ask = OptunaSampler._ask

    def quickly(self: OptunaSampler, study: optuna.Study) -> optuna.Trial:
        with torch._C.DisableTorchFunction():
            return ask(self, study)

    monkeypatch.setattr(OptunaSampler, "_ask", quickly)


@pytest.fixture(params=[*ALGORITHMS, "far"])
def algorithm(request: pytest.FixtureRequest, toys: None) -> Any:
    del toys
    if request.param == "cmaes":
        pytest.importorskip("cmaes", reason="an optional package")
    return request.param


def test_it_keeps_every_promise(algorithm: Any, algorithm_promise: Keeps) -> None:
    algorithm_promise(algorithm)


def test_a_long_random_search_draws_the_same_points_after_a_kill(tmp_path: Path) -> None:
    """Once more than 20 points were tried, a search that continued drew other ones than an undisturbed one."""
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}}
    space = promises.space_for("random", axes=axes, samples=50)
    expected = promises.searched(space, seed=4)[1].finished().keys()
    for until in (450.0, math.inf):
        record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
        Simulation(space, record, workers=1, seed=4).run(until)
    assert record.finished().keys() == expected


def test_a_toy_is_named_in_a_file_with_its_options(tmp_path: Path) -> None:
    text = "benchmark: seq_digits\naxes: {eta: [0.01, 0.02], kappa: [0.1, 0.2]}\nsamples: 2\n"
    (tmp_path / "space.yaml").write_text(text + "algorithm: {name: far, reverse: true}\n", encoding="utf-8")
    space = load(tmp_path / "space.yaml")
    assert str(space.algorithm) == "far reverse=True"
    assert next(iter(algorithm_of(space).suggest((), (), 0))) == {"eta": 0.02, "kappa": 0.2}
    assert space.canonical()["algorithm"] == {"name": "far", "reverse": True}


def test_a_toy_that_lists_its_points_is_planned_exactly() -> None:
    space = space_of(algorithm="diagonal", selection={"mean_over": ["buffer_size"]}, seeds=[0, 1])
    planned = plan(space)
    assert (planned.trials, planned.exact) == (2 * 2 * 2, True)
    _, record = promises.searched(space, 3)
    tried = {(entry.values["eta"], entry.values["kappa"]) for entry in record.finished().values()}
    assert tried == {(0.01, 0.1), (0.02, 0.2)}
    with pytest.raises(Co2lError, match="takes no number of samples"):
        space_of(algorithm="diagonal", samples=3)
