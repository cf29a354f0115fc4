"""What every search algorithm promises, checked on whole simulated searches.

The real coordinator, queue and record run; only training is simulated. Kills come at random moments from fixed seeds.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from co2l.errors import Co2lError
from co2l.search.algorithms.registry import algorithm_of
from co2l.search.record.entries import ENDED
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulated, Simulation
from co2l.search.selection.rule import group
from co2l.search.space.plan import plan, trial_count
from co2l.search.space.space import Configuration, Space, parse

AXES: dict[str, Any] = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}
SAMPLES = 6


def space_for(algorithm: Any, samples: int = SAMPLES, **keys: Any) -> Space:
    """A space of twelve points, of which an algorithm that takes a number of samples draws so many."""
    document = {
        "benchmark": "seq_digits",
        "settings": {"E_0": 4, "E_t": 2},
        "axes": AXES,
        "algorithm": algorithm,
        **keys,
    }
    try:
        return parse(document, "conformance")
    except Co2lError:
        return parse({**document, "samples": samples}, "conformance")


def searched(space: Space, slots: int = 1, seed: int = 0) -> tuple[Simulated, StudyRecord]:
    record = StudyRecord.open(None, "s", space)
    return Simulation(space, record, workers=slots, seed=seed).run(), record


def points_of(space: Space) -> int:
    """How many points the search tries."""
    return (trial_count(space) or 0) // space.trials_per_point or min(space.samples or 0, 12)


def trains_no_trial_twice(algorithm: Any, folder: Path) -> None:
    """Whatever runs at once and pauses, every stage is trained once, and no more at once than there are slots."""
    del folder
    space = space_for(algorithm, selection={"per": ["buffer_size"]})
    for slots in (1, 3):
        seen, record = searched(space, slots)
        assert max(Counter(stage for stage, _ in seen.trained).values()) == 1, "a stage was trained twice"
        began = {trial.key for trial in seen.order}
        counted = len(began), len(record.finished()), plan(space).trials
        assert counted == (points_of(space),) * 3, f"ran, finished, planned: {counted}, of {points_of(space)} points"
        assert seen.at_once <= slots


def runs_every_seed_and_every_value_averaged_over(algorithm: Any, folder: Path) -> None:
    """A point comes with all its trials: without one of them it could not be selected."""
    del folder
    space = space_for(algorithm, samples=4, seeds=[0, 1], selection={"mean_over": ["buffer_size"]})
    _, record = searched(space, 3)
    trials = Counter(space.configuration(entry.values) for entry in record.finished().values())
    assert set(trials.values()) == {4}, "a point lacks some of its trials"
    assert len(trials) == points_of(space)


def tries_every_value_that_is_selected_for(algorithm: Any, folder: Path) -> None:
    """Of the values that the selection chooses per, none is left out."""
    del folder
    space = space_for(algorithm, samples=8, selection={"per": ["buffer_size"]})
    _, record = searched(space)
    tried = {group(space, space.configuration(entry.values)) for entry in record.finished().values()}
    assert tried == {(50,), (100,)}, f"only {sorted(tried)} of the values that are selected for were tried"


def exhausts_the_grid(algorithm: Any, folder: Path) -> None:
    """Asked for more points than there are, it tries each of them once and ends."""
    del folder
    space = space_for(algorithm, samples=500)
    seen, record = searched(space, 2)
    assert set(record.finished()) == {trial.key for trial in space.trials()}, "a point of the grid was never tried"
    assert seen.epochs_trained == 3 * 4 + 12 * 4 * 2


def suggests_by_its_arguments_alone(algorithm: Any, folder: Path) -> None:
    """The same record, points and seed give the same suggestions: a value of every axis that is not averaged over."""
    del folder
    space = space_for(algorithm, selection={"mean_over": ["buffer_size"]})
    _, record = searched(space)
    before = {key: entry.so_far() for key, entry in record.entries.items()}
    tried = dict.fromkeys(space.configuration(entry.values) for entry in record.entries.values())
    asked = [
        list(itertools.islice(algorithm_of(space).suggest(record.entries.values(), tried, 3), 3)) for _ in range(2)
    ]
    assert asked[0] == asked[1], "the same record, points and seed give other suggestions"
    assert all(list(point) == ["eta", "kappa"] for point in asked[0])
    assert all(point["eta"] in AXES["eta"] and point["kappa"] in AXES["kappa"] for point in asked[0])
    assert before == {key: entry.so_far() for key, entry in record.entries.items()}, "it changed the record"


def remembers_nothing_that_matters(algorithm: Any, folder: Path) -> None:
    """One that was asked all along, whatever runs at once, suggests what one that is asked for the first time does."""
    del folder
    if algorithm_of(space_for(algorithm)).enumerable:
        return  # the order of the grid's points is not what such a one decides
    for keys in ({}, {"selection": {"per": ["buffer_size"]}}, {"seeds": [0, 1], "early_stop": {"rungs": [1, 2]}}):
        space, rng = space_for(algorithm, samples=10, **keys), random.Random(0)
        record, asked = StudyRecord.open(None, "s", space), algorithm_of(space)
        simulation, tried = Simulation(space, record, workers=3), dict[Configuration, None]()
        for until in sorted(rng.uniform(0, 60) for _ in range(8)):
            simulation.run(until)
            tried |= dict.fromkeys(space.configuration(entry.values) for entry in record.entries.values())
            found, fresh = (
                list(itertools.islice(one.suggest(record.entries.values(), tried, 5), 3))
                for one in (asked, algorithm_of(space))
            )
            assert found == fresh, f"after {len(tried)} points it suggests {found}, and a new one {fresh}"


def continues_after_kills_as_if_nothing_had_happened(algorithm: Any, folder: Path) -> None:
    """In one slot a search that is killed again and again tries the very points of one that is not."""
    space = space_for(algorithm, selection={"mean_over": ["buffer_size"]})
    for seed in (1, 2):
        undisturbed, expected = searched(space, seed=seed)
        record = killed(space, folder / f"{seed}.db", seed, slots=1, seconds=undisturbed.ended)
        found, wanted = ({key: each.score for key, each in one.finished().items()} for one in (record, expected))
        assert found == wanted, f"killed at random with seed {seed}, it tries other points"


def keeps_count_when_it_is_killed_with_parallel_slots(algorithm: Any, folder: Path) -> None:
    """What ended stays, nothing is trained again, and in the end there are as many points as were asked for."""
    space, seed = space_for(algorithm), 3
    record = killed(space, folder / "study.db", seed, slots=3, seconds=searched(space, 3, seed)[0].ended)
    counted = len(record.finished()), len(record.entries)
    assert counted == (points_of(space),) * 2, f"finished, begun: {counted}, of {points_of(space)} points"


def continues_with_more_samples(algorithm: Any, folder: Path) -> None:
    """Two more samples are two more points; those before stay. An algorithm that lists its points has no more."""
    space, url = space_for(algorithm), f"sqlite:///{folder}/more.db"
    Simulation(space, StudyRecord.open(url, "s", space), workers=1).run()
    if space.samples is None:
        return
    more = space.replace(samples=space.samples + 2)
    seen = Simulation(more, StudyRecord.open(url, "s", more), workers=1).run()
    assert len(seen.order) == 2, f"two more samples are {len(seen.order)} more points"
    assert len(StudyRecord.open(url, "s", more).finished()) == space.samples + 2


def races_the_best_and_continues_after_kills(algorithm: Any, folder: Path) -> None:
    """With a race the best are tried with further seeds, the same ones whenever the search is killed."""
    selection = {"mean_over": ["buffer_size"], "race": {"seeds": 3, "share": 0.9}}
    space = space_for(algorithm, selection=selection)
    undisturbed, expected = searched(space, seed=1)
    tried = {seed: _points(space, expected, seed) for seed in (0, *space.further_seeds)}
    assert tried[0] > tried[1] >= tried[2], "whoever runs a heat has not run those before"
    assert len(tried[1]) > 1, "nothing was raced"
    record = killed(space, folder / "race.db", 1, slots=1, seconds=2 * undisturbed.ended)
    found, wanted = ({key: each.score for key, each in one.finished().items()} for one in (record, expected))
    assert found == wanted, "killed at random, it races others"


def _points(space: Space, record: StudyRecord, seed: int) -> set[Configuration]:
    return {space.configuration(each.values) for each in record.finished().values() if each.seed == seed}


def killed(space: Space, database: Path, seed: int, *, slots: int, seconds: float) -> StudyRecord:
    """The record of a search whose driver was killed three times."""
    rng, url, stored = random.Random(seed), f"sqlite:///{database}", set[Hashable]()
    trained: list[Hashable] = []
    for until in [*(rng.uniform(0, seconds / 2) for _ in range(3)), math.inf]:
        record = StudyRecord.open(url, "s", space)
        ended = {key for key, entry in record.entries.items() if entry.status in ENDED}
        seen = Simulation(space, record, workers=slots, seed=seed, stored=stored).run(until)
        assert not ended & {trial.key for trial in seen.order}, "a trial that had ended was run again"
        trained += [stage for stage, _ in seen.trained if stage in stored]
    assert max(Counter(trained).values()) == 1, "a stage that was stored was trained again"
    return record


PROMISES = (
    trains_no_trial_twice,
    runs_every_seed_and_every_value_averaged_over,
    tries_every_value_that_is_selected_for,
    exhausts_the_grid,
    suggests_by_its_arguments_alone,
    remembers_nothing_that_matters,
    continues_after_kills_as_if_nothing_had_happened,
    keeps_count_when_it_is_killed_with_parallel_slots,
    continues_with_more_samples,
    races_the_best_and_continues_after_kills,
)
