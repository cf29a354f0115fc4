"""Searches that pause and thaw: nothing is lost, the budget holds, and a kill changes nothing."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spaces import space_of

from co2l.errors import Co2lError
from co2l.search.algorithms.registry import algorithm_of
from co2l.search.algorithms.thaw import Thaw
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulated, Simulation, accuracy
from co2l.search.selection.rule import select
from co2l.search.space.budget import Budget
from co2l.search.space.plan import plan
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

AXES = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "kappa_star": [0.01, 0.05], "E_t": [5, 10]}


def searched(space: Space, budget: float | None = None, **options: Any) -> tuple[Simulated, StudyRecord]:
    record = StudyRecord.open(None, "s", space)
    limit = None if budget is None else Budget(epochs=budget)
    return Simulation(space, record, budget=limit, **options).run(), record


def of_stages(trial: Trial, finished_tasks: int) -> float:
    """Trials that share their first stage have one score after it."""
    first = replace(trial, values={"eta": trial.values["eta"]})
    return accuracy(first if finished_tasks == 1 else trial, finished_tasks)


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize("keys", [{}, {"selection": {"per": ["E_t"]}}, {"selection": {"mean_over": ["E_t"]}}])
def test_with_the_whole_budget_it_ends_with_the_selection_of_the_grid(workers: int, keys: dict[str, Any]) -> None:
    grid, thaw = space_of(AXES, **keys), space_of(AXES, algorithm="thaw", **keys)
    _, expected = searched(grid, workers=workers)
    seen, record = searched(thaw, workers=workers)
    assert select(thaw, record.entries.values()).selected == select(grid, expected.entries.values()).selected
    assert seen.epochs_trained == plan(grid).epochs_planned
    assert max(Counter(stage for stage, _ in seen.trained).values()) == 1


@pytest.mark.parametrize("algorithm", ["thaw", "random", "tpe"])
@pytest.mark.parametrize("workers", [1, 4])
def test_no_more_is_trained_than_the_budget_and_what_is_begun_can_be_chosen(algorithm: str, workers: int) -> None:
    samples = None if algorithm == "thaw" else 24
    space = space_of(AXES, algorithm=algorithm, samples=samples)
    seen, record = searched(space, 400, workers=workers)
    assert 300 < seen.epochs_trained <= 400
    assert {entry.status for entry in record.entries.values()} <= {"done", "paused"}
    assert select(space, record.entries.values()).selected


def test_trials_pause_and_go_on() -> None:
    space = space_of(AXES, algorithm="thaw")
    seen, record = searched(space, 500, workers=2)
    paused = [entry for entry in record.entries.values() if entry.status == "paused"]
    assert paused
    assert all(0 < max(entry.rungs) < 5 for entry in paused)
    everything, _ = searched(space, workers=2)
    assert max(Counter(trial.key for trial in everything.order).values()) > 1
    assert len(seen.order) < len(everything.order)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("budget", [None, 500])
def test_killed_at_random_it_continues_as_if_nothing_had_happened(
    budget: float | None, seed: int, tmp_path: Path
) -> None:
    space, rng = space_of(AXES, algorithm="thaw"), random.Random(seed)
    undisturbed, expected = searched(space, budget, workers=1, seed=seed, accuracy=of_stages)
    stored: set[Hashable] = set()
    limit = None if budget is None else Budget(epochs=budget)
    for until in [*(rng.uniform(0, undisturbed.ended / 2) for _ in range(3)), math.inf]:
        record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
        simulation = Simulation(space, record, workers=1, seed=seed, budget=limit, stored=stored, accuracy=of_stages)
        simulation.run(until)
    known = {key: (entry.status, entry.score, entry.rungs) for key, entry in record.entries.items()}
    assert known == {key: (entry.status, entry.score, entry.rungs) for key, entry in expected.entries.items()}


def test_a_trial_that_fails_for_good_is_left_out() -> None:
    space = space_of(AXES, algorithm="thaw", retries=1)
    bad = next(space.trials()).key
    _, record = searched(space, workers=2, fails=lambda trial, task: "broken" if trial.key == bad and task else "")
    assert {key for key, entry in record.entries.items() if entry.status == "failed"} == {bad}
    assert len(record.finished()) == 23


def test_seeds_are_trained_together() -> None:
    space = space_of(AXES, algorithm="thaw", seeds=[0, 1])
    seen, record = searched(space, 900, workers=3)
    assert seen.epochs_trained <= 900
    finished = Counter(space.configuration(entry.values) for entry in record.finished().values())
    assert select(space, record.entries.values()).selected
    assert max(finished.values()) == 2


def test_a_hidden_optimum_is_found_for_less_than_half_of_the_epochs() -> None:
    axes = {"eta": [0.01, 0.02, 0.03, 0.04, 0.05], "kappa": [0.1, 0.2, 0.3, 0.4], "kappa_star": [0.01, 0.05, 0.1]}
    space = space_of(axes, algorithm="thaw")

    def accuracy(trial: Any, tasks: int) -> float:
        eta, kappa, star = (float(value) for value in trial.values.values())
        far = abs(eta - 0.04) * 100 + abs(kappa - 0.3) * 10 + abs(star - 0.05) * 20
        return 95 - 3 * far - tasks

    whole = plan(space).epochs_naive
    for seed in range(3):
        _, record = searched(space, 0.2 * whole, workers=4, seed=seed, accuracy=accuracy)
        chosen = select(space, record.entries.values()).selected[0]
        assert dict(chosen.values) == {"eta": 0.04, "kappa": 0.3, "kappa_star": 0.05}


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_a_budget_for_few_trials_goes_to_long_ones_at_random_with_different_first_stages(workers: int) -> None:
    space, chosen = space_of(AXES, algorithm="thaw"), set[object]()
    for seed in range(4):
        seen, record = searched(space, 3 * 60, workers=workers, seed=seed)
        finished = record.finished().values()
        assert seen.epochs_trained == 3 * 60
        assert [entry.values["E_t"] for entry in finished] == [10, 10, 10]
        assert sorted(entry.values["eta"] for entry in finished) == [0.01, 0.02, 0.05]
        chosen.add(frozenset(entry.key for entry in finished))
    assert len(chosen) > 1


def test_auto_thaws_where_it_can() -> None:
    assert isinstance(algorithm_of(space_of(AXES, algorithm="auto")), Thaw)
    ranges = {"eta": {"low": 0.01, "high": 0.1}}
    assert not isinstance(algorithm_of(space_of(ranges, algorithm="auto", samples=5)), Thaw)
    unseen = {**AXES, "matrix_probe": ["none"]}
    assert not isinstance(algorithm_of(space_of(unseen, algorithm="auto", samples=5)), Thaw)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"early_stop": True}, "thaw pauses trials by itself"),
        ({"settings": {"matrix_probe": "none"}}, "matrix_probe none measures none"),
        ({"axes": {"eta": {"low": 0.1, "high": 0.2}}}, "a range has no grid"),
        ({"samples": 3}, "takes no number of samples"),
    ],
)
def test_what_cannot_thaw_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(Co2lError, match=words):
        space_of(AXES, algorithm="thaw").replace(**keys)
