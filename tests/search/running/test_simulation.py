"""Whole searches on a virtual clock: reuse, rungs, restarts, use of workers, scale."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
from spaces import space_of

from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation, recorded
from co2l.search.selection.rule import select
from co2l.search.space.plan import plan
from co2l.search.space.space import Space, load
from co2l.search.space.trial import Trial

SPACES = Path(__file__).parents[3] / "search_spaces"
AXES = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "E_t": [5, 10], "buffer_size": [50, 100]}


def simulate(space: Space, workers: int, **options: Any) -> tuple[Simulation, StudyRecord]:
    record = options.pop("record", None) or StudyRecord.open(None, "s", space)
    simulation = Simulation(space, record, workers=workers, **options)
    return simulation, record


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
@pytest.mark.parametrize(
    "axes", [AXES, {"kappa": [0.1, 0.2], "probe_lr": [0.1, 0.5, 1.0], "eta": [0.1, 0.2]}, {"eta": [0.1]}]
)
def test_every_stage_is_trained_once(axes: dict[str, Any], workers: int) -> None:
    space = space_of(axes, seeds=[0, 1])
    simulation, record = simulate(space, workers)
    seen = simulation.run()
    planned = plan(space)
    assert max(Counter(stage for stage, _ in seen.trained).values()) == 1
    assert seen.epochs_trained == record.cost().epochs_trained == planned.epochs_planned
    assert seen.epochs_trained + seen.epochs_reused == planned.epochs_naive
    assert len(seen.order) == len(record.finished()) == planned.trials
    assert seen.at_once <= workers


def test_without_reuse_everything_is_trained_and_the_choice_is_the_same() -> None:
    space = space_of(AXES, selection={"per": ["buffer_size"]})
    (shared, kept), (alone, other) = simulate(space, 4), simulate(space, 4, reuse=False)
    shared.run()
    assert alone.run().epochs_trained == plan(space).epochs_naive
    scores = [{key: entry.score for key, entry in record.finished().items()} for record in (kept, other)]
    assert scores[0] == scores[1]
    assert select(space, kept.entries.values()) == select(space, other.entries.values())


def test_the_clock() -> None:
    """Two trials of one first stage: 20 epochs, then both go on for 4 × 10 at once."""
    simulation, record = simulate(space_of({"kappa": [0.1, 0.2]}), 2)
    seen = simulation.run()
    assert (seen.ended, seen.busy) == (60.0, 100.0)
    assert seen.utilisation == pytest.approx(100 / 120)
    assert sorted(entry.cost.seconds for entry in record.entries.values()) == [40.0, 60.0]


def test_workers_are_busy_on_the_paper_s_grid() -> None:
    space = load(SPACES / "seq_cifar10.yaml")
    seen = simulate(space, 64)[0].run()
    # 37 of 64 workers have nothing to do while 27 first stages take their 500 epochs: not more than 91.8%
    assert 0.85 <= seen.utilisation <= 207900 / (207900 + 37 * 500)
    uneven = {256: 2.0, 512: 1.3, 1024: 1.0}
    seen = simulate(space, 64, seconds=lambda trial: uneven[trial.config.settings.batch_size])[0].run()
    assert seen.utilisation >= 0.85


def test_failures_are_tried_again_and_the_search_goes_on() -> None:
    space = space_of(AXES, retries=2)
    hopeless = next(space.trials()).key
    rng = random.Random(0)

    def fails(trial: Trial, task: int) -> str:
        if trial.key == hopeless and task == 2:
            return "the loss became nan"
        return "lost" if rng.random() < 0.02 else ""

    simulation, record = simulate(space, 5, fails=fails)
    seen = simulation.run()
    assert {key for key, entry in record.entries.items() if entry.status == "failed"} == {hopeless}
    assert record.entries[hopeless].failures == 3
    assert len(record.finished()) == 23
    retried = sum(entry.failures for entry in record.entries.values())
    assert retried > 3
    assert len(seen.order) == 24 + retried - 1
    assert max(Counter(trial.key for trial in seen.order).values()) <= 3


@pytest.mark.parametrize("algorithm", ["grid", "random", "tpe"])
@pytest.mark.parametrize("early_stop", [False, {"rungs": [1, 2], "survivors": 0.5, "min_trials": 3}])
def test_a_killed_driver_costs_no_trial_twice(algorithm: str, early_stop: Any, tmp_path: Path) -> None:
    samples = {} if algorithm == "grid" else {"samples": 8}
    space = space_of(AXES, algorithm=algorithm, early_stop=early_stop, **samples)
    url, rng, stored = f"sqlite:///{tmp_path}/study.db", random.Random(3), set[Hashable]()
    stages: list[Hashable] = []
    for until in [rng.uniform(1, 150) for _ in range(5)] + [float("inf")]:
        ended = {key for key, e in StudyRecord.open(url, "s", space).entries.items() if e.status in ("done", "pruned")}
        simulation, record = simulate(space, 3, record=StudyRecord.open(url, "s", space), stored=stored)
        seen = simulation.run(until)
        assert not ended & {trial.key for trial in seen.order}
        finished_now = seen.trained if until == float("inf") else [each for each in seen.trained if each[0] in stored]
        stages += [stage for stage, _ in finished_now]
    assert max(Counter(stages).values()) == 1  # a stage that was stored is never trained again
    assert {entry.status for entry in record.entries.values()} <= {"done", "pruned"}
    assert len(record.entries) == (24 if algorithm == "grid" else 8)
    if algorithm != "tpe" and not early_stop:  # where a decision needs no results, the same ones are taken
        undisturbed = simulate(space, 3)
        undisturbed[0].run()
        assert set(record.finished()) == set(undisturbed[1].finished())


def test_rungs_save_epochs_and_keep_the_best() -> None:
    axes = {"eta": [0.001 * (i + 1) for i in range(8)], "kappa": [0.1, 0.2, 0.3, 0.4], "buffer_size": [50, 100]}
    rules = {"rungs": [1, 2, 3], "survivors": 0.5, "min_trials": 4}
    selection = {"mean_over": ["buffer_size"]}

    def steady(trial: Trial, finished_tasks: int) -> float:
        """The order of trials is the same after every task."""
        settings = trial.config.settings.model_dump()
        best = abs(settings["eta"] - 0.005) * 1000 + abs(settings["kappa"] - 0.3) * 10
        return 90 - best - finished_tasks + settings["buffer_size"] / 10

    whole, stopped = space_of(axes, selection=selection), space_of(axes, selection=selection, early_stop=rules)
    (all_of, full), (some, cut) = simulate(whole, 6, accuracy=steady), simulate(stopped, 6, accuracy=steady)
    assert some.run().epochs_trained < 0.7 * all_of.run().epochs_trained
    few, many = select(stopped, cut.entries.values()).selected, select(whole, full.entries.values()).selected
    assert [each.trials for each in few] == [each.trials for each in many]
    assert [each.score for each in few] == [each.score for each in many]
    assert {entry.status for entry in cut.entries.values()} == {"done", "pruned"}


@pytest.mark.parametrize("algorithm", ["grid", "random", "tpe"])
def test_a_recorded_grid_is_replayed(algorithm: str) -> None:
    """A trial has the scores of its own row, whichever algorithm draws it: at its rungs, and the last as its result."""
    grid = space_of(AXES, seeds=[0, 1], selection={"mean_over": ["buffer_size"]})
    rng = random.Random(0)
    rows = [[rng.uniform(0, 100) for _ in range(5)] for _ in range(48)]
    keys = {} if algorithm == "grid" else {"samples": 7}
    space = grid.replace(algorithm=algorithm, early_stop={"rungs": [1, 3], "survivors": 0.5}, **keys)
    simulation, record = simulate(space, 3, accuracy=recorded(grid, rows))
    simulation.run()
    row_of = {trial.key: row for trial, row in zip(grid.trials(), rows, strict=True)}
    assert {entry.status for entry in record.entries.values()} == {"done", "pruned"}
    for key, entry in record.entries.items():
        assert entry.rungs == {tasks: row_of[key][tasks - 1] for tasks in entry.rungs}
        assert entry.score == (row_of[key][4] if entry.status == "done" else None)


def test_a_record_of_another_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        recorded(space_of(AXES), [[1.0] * 5] * 23)
