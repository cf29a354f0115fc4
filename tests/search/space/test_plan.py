"""The plan counts what training each distinct stage once would take; here it is counted by brute force."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from spaces import space_of

from co2l.search.space.estimate import LEFT_OUT, Timing, _seconds_per_example, estimate, measured
from co2l.search.space.plan import Plan, order, plan
from co2l.search.space.space import parse

TASKS = {"seq_digits": 5, "r_mnist": 20}
FIRST_READS = {"eta", "tau", "batch_size", "E_0", "momentum"}  # protocol: task 1 knows no κ, E_t or buffer
NEVER_READ = {"probe_lr", "probe_epochs"}  # by training


def brute_force(axes: Mapping[str, list[Any]], seeds: list[int], tasks: int) -> dict[str, int]:
    """Every stage of every trial by name; a stage's name is all that it and the stages before it read."""
    stages: dict[Any, int] = {}
    naive = trials = 0
    for *values, seed in itertools.product(*axes.values(), seeds):
        trial = {"E_0": 20, "E_t": 10, **dict(zip(axes, values, strict=True))}
        trials += 1
        for t in range(tasks):
            read = {k: v for k, v in trial.items() if k not in NEVER_READ and (t > 0 or k in FIRST_READS)}
            epochs = trial["E_0"] if t == 0 else trial["E_t"]
            stages[t, seed, tuple(sorted(read.items()))] = epochs
            naive += epochs
    first = sum(t == 0 for t, *_ in stages)
    planned = sum(stages.values())
    return dict(
        trials=trials, first_stages=first, stages=len(stages), epochs_naive=naive, epochs_planned=planned
    )  # fmt: skip


GRIDS: list[tuple[dict[str, list[Any]], list[int], str]] = [
    ({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3], "buffer_size": [50, 100]}, [0], "seq_digits"),
    ({"kappa": [0.1, 0.2], "E_t": [5, 7, 10]}, [0, 1, 2], "seq_digits"),
    ({"E_0": [5, 20], "E_t": [1, 2], "tau": [0.1, 0.5]}, [4], "seq_digits"),
    ({"probe_lr": [0.1, 1.0], "kappa": [0.1, 0.2]}, [0], "seq_digits"),
    ({"eta": [0.01]}, [0], "seq_digits"),
    ({"batch_size": [64, 128], "buffer_size": [200, "unlimited"], "probe_epochs": [5, 6]}, [0, 1], "r_mnist"),
]


@pytest.mark.parametrize(("axes", "seeds", "benchmark"), GRIDS)
def test_the_counts_are_those_of_brute_force(axes: dict[str, list[Any]], seeds: list[int], benchmark: str) -> None:
    planned = plan(space_of(axes, benchmark, seeds=seeds))
    expected = brute_force(axes, seeds, TASKS[benchmark])
    assert {name: getattr(planned, name) for name in expected} == expected
    assert planned.exact
    assert planned.ratio == expected["epochs_naive"] / expected["epochs_planned"]
    assert planned.as_dict().items() >= {**expected, "ratio": planned.ratio}.items()


@pytest.mark.parametrize(("axes", "seeds", "benchmark"), GRIDS)
def test_the_counts_are_those_of_the_content_keys(axes: dict[str, list[Any]], seeds: list[int], benchmark: str) -> None:
    """The plan never hashes a stage; the store does, and must come to the same stages."""
    space = space_of(axes, benchmark, seeds=seeds)
    planned = plan(space)
    uses = Counter(trial.config.stage_key(t) for trial in space.trials() for t in range(TASKS[benchmark]))
    assert planned.stages == len(uses)
    assert planned.first_stages == len({trial.config.stage_key(0) for trial in space.trials()})
    assert planned.shared == {key for key, n in uses.items() if n > 1}


@pytest.mark.parametrize(
    ("method", "first_stages", "epochs"),
    [
        ("er", 8, 8 * 5 * 3),  # its buffer works from the first batch on: nothing is shared
        ("agem", 4, (4 + 8 * 4) * 3),  # its buffer is filled when the first task ends
        ("joint", 4, 4 * 3),  # nothing to train before the last stage
    ],
)
def test_baselines_share_what_their_first_stage_does_not_read(method: str, first_stages: int, epochs: int) -> None:
    axes: dict[str, Any] = {"eta": [0.1, 0.2], "momentum": [0.0, 0.5]}
    if method != "joint":
        axes["buffer_size"] = [50, 100]
    space = parse({"benchmark": "seq_digits", "method": method, "settings": {"epochs": 3}, "axes": axes}, "space.yaml")
    planned = plan(space)
    uses = Counter(trial.config.stage_key(t) for trial in space.trials() for t in range(5))
    assert (planned.first_stages, planned.epochs_planned) == (first_stages, epochs)
    assert planned.stages == len(uses)
    assert planned.shared == {key for key, n in uses.items() if n > 1}


def timed_here(folder: Path) -> Timing:
    return measured(data=folder, device=torch.device("cpu"))


@pytest.mark.parametrize("method", ["joint", "icarl"])
def test_estimate_counts_what_an_epoch_goes_over(method: str, tmp_path: Path) -> None:
    space = parse({"benchmark": "seq_digits", "method": method, "settings": {"epochs": 2}, "axes": {"eta": [0.1]}}, "s")
    found = estimate(space, timed_here(tmp_path))
    (timed,) = found.timed
    n1, n2 = timed.sizes
    if method == "joint":
        expected = 2 * (n1 + 4 * n2) * timed.later
    else:
        expected = 2 * n1 * timed.first + 2 * 4 * (n2 + 100) * timed.later
    assert found.trial_hours * 3600 == pytest.approx(expected)


def test_distinct_first_stages_come_first() -> None:
    space = space_of({"kappa": [0.1, 0.2], "eta": [0.01, 0.02, 0.03], "E_t": [1, 2]}, seeds=[0, 1])
    trials = list(space.trials())
    ordered = order(trials)
    assert sorted(trial.key for trial in ordered) == sorted(trial.key for trial in trials)
    leaders = ordered[:6]
    assert len({trial.config.stage_key(0) for trial in leaders}) == 6
    rest = [trial for trial in trials if trial not in leaders]
    assert ordered[6:] == rest
    for leader in leaders:  # the first of its kind
        assert leader == next(trial for trial in trials if trial.chain[0] == leader.chain[0])
    assert order([]) == []


def test_ten_thousand_trials_are_quick() -> None:
    many = [i / 10 for i in range(1, 11)]
    space = space_of({"eta": many, "tau": many, "kappa": many, "kappa_star": many}, "r_mnist")
    started = time.process_time()
    planned = plan(space)
    ordered = order(space.trials())
    assert len(planned.shared) == planned.first_stages == 100
    assert planned.trials == len(ordered) == 10_000
    assert planned.stages == 100 + 10_000 * 19
    assert len({trial.key for trial in ordered}) == 10_000
    assert time.process_time() - started < 15  # ten times what a shared core takes


def test_a_search_by_chance_is_planned_by_a_draw_of_its_size() -> None:
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "kappa": [0.1, 0.2]}
    planned = plan(space_of(axes, algorithm="random", samples=30, seeds=[0, 1]))
    assert (planned.trials, planned.first_stages, planned.exact) == (60, 60, False)
    assert planned.epochs_naive == planned.epochs_planned == 60 * (20 + 4 * 10)


def test_samples_beyond_the_grid_are_not_trained_twice() -> None:
    axes = {"eta": [0.01, 0.02], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}
    tpe = {"algorithm": "tpe", "samples": 500}
    assert plan(space_of(axes, **tpe)).trials == 8
    joint = plan(space_of(axes, **tpe, selection={"mean_over": ["buffer_size"]}))
    assert (joint.trials, joint.first_stages, joint.exact) == (8, 2, False)


def test_early_stopping_makes_the_plan_a_limit() -> None:
    stopping = plan(space_of({"eta": [0.01, 0.02]}, early_stop=True))
    full = plan(space_of({"eta": [0.01, 0.02]}))
    assert not stopping.exact
    assert stopping.epochs_planned == full.epochs_planned


def test_estimate_on_real_steps(tmp_path: Path) -> None:
    """Hours and money follow from the timed seconds per sample by arithmetic that is done again here."""
    axes: dict[str, list[Any]] = {"batch_size": [16, 64], "E_t": [1, 2], "buffer_size": [50, 100], "kappa": [0.1, 0.2]}
    space = space_of(axes)
    found = estimate(space, timed_here(tmp_path), parallel=4, price=3.0)
    assert [timed.settings for timed in found.timed] == [{"batch_size": 16}, {"batch_size": 64}]
    naive = planned = 0.0
    for timed in found.timed:
        n1, n2 = timed.sizes
        assert 200 < n1 < 300  # 1,437 digits in training, less a tenth, are 5 tasks
        assert timed.replays
        assert 8 <= timed.batch <= timed.settings["batch_size"]
        assert timed.first > 0
        assert timed.later > 0
        planned += 20 * n1 * timed.first
        for E_t, size, _ in itertools.product([1, 2], [50, 100], [0.1, 0.2]):
            later = E_t * 4 * (n2 + size) * timed.later
            planned += later
            naive += 20 * n1 * timed.first + later
    assert found.trial_hours * 3600 == pytest.approx(planned)
    assert found.trial_hours_naive * 3600 == pytest.approx(naive)
    assert found.hours == pytest.approx(planned / 3600 / 4)
    assert found.money == pytest.approx(found.hours * 3.0)
    assert "evaluation" in LEFT_OUT
    assert found.as_dict()["left_out"] == LEFT_OUT


def test_estimate_without_price_and_with_a_growing_buffer(tmp_path: Path) -> None:
    space = space_of({"buffer_size": ["unlimited"]})
    found = estimate(space, timed_here(tmp_path))
    (timed,) = found.timed
    n1, n2 = timed.sizes
    drawn = sum(n2 + n1 + i * n2 for i in range(4))
    assert found.trial_hours * 3600 == pytest.approx(20 * n1 * timed.first + 10 * drawn * timed.later)
    assert found.money is None


class Slow:
    """A method whose steps take a tenth of a second per example, by its own clock."""

    def __init__(self) -> None:
        self.now, self.steps = 0.0, list[int]()

    def draw(self, _epoch: int) -> list[torch.Tensor]:
        return [torch.arange(512)]

    def schedule(self, _t: int) -> Slow:
        return self

    def lr(self, _epoch: int, _step: int, _steps: int) -> float:
        return 0.1

    def step(self, batch: torch.Tensor, _lr: float, _generator: torch.Generator) -> dict[str, torch.Tensor]:
        self.now += 0.1 * len(batch)
        self.steps.append(len(batch))
        return {"loss": torch.zeros(())}


def test_slow_steps_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    monkeypatch.setattr("co2l.search.space.estimate.time.perf_counter", lambda: slow.now)
    n, seconds = _seconds_per_example(slow, 0, 0, torch.device("cpu"))  # type: ignore[arg-type]  # all it calls
    assert seconds == pytest.approx(0.1)
    assert n == 10  # a second's worth
    assert max(slow.steps) == 10


def test_plan_is_plain_data() -> None:
    planned = plan(space_of({"eta": [0.01, 0.02]}))
    assert isinstance(planned, Plan)
    with pytest.raises(AttributeError):
        planned.trials = 3  # type: ignore[misc]
