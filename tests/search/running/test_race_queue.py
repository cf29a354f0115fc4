"""A race in simulated searches: what it costs, who runs, and that it continues as if it had not been killed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
from spaces import space_of

from co2l.errors import Co2lError
from co2l.reporting.summary import summarise
from co2l.search.record.entries import Entry
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulated, Simulation
from co2l.search.selection.rule import select
from co2l.search.space.budget import Budget
from co2l.search.space.plan import plan
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

AXES = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "kappa_star": [0.01, 0.1]}


def racing(race_seeds: int = 4, share: float = 0.9, axes: Any = None, **keys: Any) -> Space:
    selection = {**keys.pop("selection", {}), "race": {"seeds": race_seeds, "share": share}}
    return space_of(axes or AXES, selection=selection, **keys)


def score(trial: Trial, finished_tasks: int) -> float:
    """By the settings, and noise of a seed."""
    level = sum(math.sin(9 * i + 100 * float(value)) for i, value in enumerate(trial.values.values()))
    return 50 + 5 * level + 2 * math.sin(1000 * level + 77 * trial.seed) - finished_tasks


def searched(
    space: Space, record: StudyRecord | None = None, *, budget: float | None = None, until: float = math.inf, **how: Any
) -> tuple[Simulated, StudyRecord]:
    record = record or StudyRecord.open(None, "s", space)
    options = {"workers": 3, "accuracy": score, "budget": Budget(budget) if budget else None, **how}
    return Simulation(space, record, **options).run(until), record


def by_seed(space: Space, record: StudyRecord) -> dict[int, set[Any]]:
    """The configurations that were tried with each seed."""
    found = defaultdict(set)
    for entry in record.entries.values():
        found[entry.seed].add(space.configuration(entry.values))
    return dict(found)


def cost(space: Space, entries: list[Entry]) -> int:
    """The epochs of their distinct stages, of a paused trial those before the pause."""
    stages: dict[Hashable, int] = {}
    for entry in entries:
        trial = space.trial(entry.values, entry.seed)
        trained = trial.config.epochs if entry.score is not None else trial.config.epochs[: max(entry.rungs, default=0)]
        stages |= {(trial.segment(task), task): epochs for task, epochs in enumerate(trained)}
    return sum(stages.values())


def test_the_best_run_heat_after_heat_within_a_share_of_the_planned_epochs() -> None:
    space = racing()
    seen, record = searched(space)
    heats = by_seed(space, record)
    assert [len(heats[seed]) for seed in (0, 1, 2, 3)] == [12, 4, 3, 2]
    assert heats[0] > heats[1] > heats[2] > heats[3]
    finals = {space.configuration(e.values): e.score or 0.0 for e in record.entries.values() if e.seed == 0}
    assert heats[1] == set(sorted(finals, key=lambda point: -finals[point])[:4])
    planned = plan(space)
    assert planned.race_epochs == int(0.9 * (3 * 20 + 12 * 40))
    race = [entry for entry in record.entries.values() if entry.seed > 0]
    assert cost(space, race) == seen.epochs_trained - planned.epochs_planned <= planned.race_epochs
    assert max(Counter(stage for stage, _ in seen.trained).values()) == 1
    (chosen,) = select(space, record.entries.values()).selected
    assert chosen.seeds == (0, 1, 2, 3)
    means = {
        point: sum(e.score or 0.0 for e in record.entries.values() if space.configuration(e.values) == point) / 4
        for point in heats[3]
    }
    assert chosen.score == pytest.approx(max(means.values()))


def test_a_further_seed_draws_other_validation_examples() -> None:
    space = racing(validation={"fraction": 0.2, "seed": 5})
    _, record = searched(space)
    for entry in record.entries.values():
        split = space.trial(entry.values, entry.seed).config.split
        assert (split.seed, split.fraction) == (5 + entry.seed, 0.2)


@pytest.mark.parametrize("algorithm", ["grid", "thaw", "random", "tpe"])
@pytest.mark.parametrize("workers", [1, 4])
def test_the_budget_is_never_exceeded_and_a_share_of_it_is_held_back(algorithm: str, workers: int) -> None:
    samples = {} if algorithm in ("grid", "thaw") else {"samples": 12}
    space = racing(3, 0.3, algorithm=algorithm, **samples)
    for budget in (plan(space).epochs_planned, 600, 700):
        seen, record = searched(space, budget=budget, workers=workers)
        assert seen.epochs_trained <= budget
        assert cost(space, [each for each in record.entries.values() if each.seed == 0]) <= 0.7 * budget
        heats = by_seed(space, record)
        assert heats[0] >= heats.get(1, set()) >= heats.get(2, set())
        assert len(heats[1]) >= 2


def test_a_budget_for_few_trials_goes_to_the_search_alone() -> None:
    """Of 24 trials with 60 epochs each, it pays for fewer than 16 if none shares a stage, and for 16."""
    axes = {**AXES, "tau": [0.1, 0.2]}
    space = racing(3, 0.3, axes=axes, algorithm="random", samples=24)
    assert plan(space).epochs_naive == 24 * 60
    for budget, raced in ((15 * 60, False), (16 * 60, True)):
        seen, record = searched(space, budget=budget)
        assert seen.epochs_trained <= budget
        of_search = cost(space, [each for each in record.entries.values() if each.seed == 0])
        assert (of_search > 0.7 * budget) is not raced
        assert (len(by_seed(space, record)) > 1) is raced


@pytest.mark.parametrize("keys", [{}, {"algorithm": "thaw"}, {"algorithm": "tpe", "samples": 8, "early_stop": True}])
def test_killed_at_random_it_continues_as_if_nothing_had_happened(keys: dict[str, Any], tmp_path: Path) -> None:
    space = racing(3, 0.4, **keys)
    how: dict[str, Any] = {"budget": 700, "workers": 1, "seed": 1}
    undisturbed, expected = searched(space, **how)
    stored: set[Hashable] = set()
    for part in (0.2, 0.6, 0.75, 0.9, math.inf):
        record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
        ended = sum(0.0 if each.status == "pending" else each.cost.epochs_trained for each in record.entries.values())
        searched(space, record, stored=stored, until=part * undisturbed.ended - ended, **how)
    assert {key: entry.score for key, entry in record.finished().items()} == {
        key: entry.score for key, entry in expected.finished().items()
    }
    assert len(by_seed(space, record)) == 3
    study = StudyReader(f"sqlite:///{tmp_path}/study.db").study("s")
    assert select(study.space, study.entries.values()).selected == select(space, expected.entries.values()).selected
    assert study.choosing().epochs == undisturbed.epochs_trained


def test_each_value_that_is_selected_for_has_a_race_of_its_own() -> None:
    space = racing(3, axes={"eta": [0.01, 0.02, 0.05], "buffer_size": [50, 100]}, selection={"per": ["buffer_size"]})
    seen, record = searched(space)
    raced = Counter(point[1][1] for point in by_seed(space, record)[1])
    assert min(raced[50], raced[100]) >= 2
    assert seen.epochs_trained <= 1.9 * plan(space).epochs_planned
    for chosen in select(space, record.entries.values()).selected:
        assert chosen.seeds == (0, 1)
        assert chosen.margin.race is not None
        assert all(other["buffer_size"] == chosen.group["buffer_size"] for other in chosen.margin.race.alike)


def test_every_value_averaged_over_is_raced_and_so_are_several_seeds() -> None:
    axes = {"eta": [0.01, 0.02, 0.05], "buffer_size": [50, 100]}
    space = racing(3, axes=axes, selection={"mean_over": ["buffer_size"]}, seeds=[3, 1])
    assert space.further_seeds == (4,)
    _, record = searched(space)
    trials = Counter((space.configuration(each.values), each.seed) for each in record.finished().values())
    assert set(trials.values()) == {2}
    first, second = select(space, record.entries.values()).selected
    assert first.seeds == second.seeds == (3, 1, 4)
    assert (first.group, second.group) == ({"buffer_size": 50}, {"buffer_size": 100})


def test_a_study_takes_up_a_race_and_gets_more_seeds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    plain = space_of(AXES)
    assert plain.digest == racing().digest
    searched(plain, StudyRecord.open(url, "s", plain))
    counts = []
    for seeds in (3, 4):
        space = racing(seeds)
        _, record = searched(space, StudyRecord.open(url, "s", space))
        counts.append(len(by_seed(space, record)))
    assert counts == [3, 4]
    study = StudyReader(url).study("s")
    assert (study.left, summarise(study).progress) == (0, f"12/12 done, {len(record.entries) - 12} raced")
    more = racing(axes={**AXES, "eta": [0.01, 0.02, 0.05, 0.1]})
    seen, record = searched(more, StudyRecord.open(url, "s", more))
    assert len(by_seed(more, record)[0]) == 16
    assert [trial.seed for trial in seen.order[:4]] == [0] * 4


def test_a_seed_of_the_race_does_not_become_one_of_the_space(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    searched(racing(3), StudyRecord.open(url, "s", racing(3)))
    StudyRecord.open(url, "s", racing(5, seeds=[0, 3]))
    with pytest.raises(Co2lError, match="has tried seed 1 with a validation split of its own"):
        StudyRecord.open(url, "s", racing(5, seeds=[0, 3, 1]))


def test_what_fails_in_the_race_leaves_it() -> None:
    space = racing(3, retries=0)
    _, whole = searched(space)
    best = select(space, whole.entries.values()).selected[0].values
    _, record = searched(space, fails=lambda trial, _: "broken" if trial.seed == 1 and trial.values == best else "")
    choice = select(space, record.entries.values())
    assert choice.selected[0].values != best
    assert len(choice.left_out) == 1
    assert "failed in the race with seed 1 (broken)" in choice.left_out[0]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"selection": {"race": {"seeds": 1}}}, "selection.race.seeds: input should be greater than or equal to 2"),
        ({"selection": {"race": {"seeds": 3, "share": 1.0}}}, "selection.race.share: input should be less than 1"),
        ({"selection": {"race": {"seeds": 3, "share": 0}}}, "selection.race.share: input should be greater than 0"),
        ({"selection": {"race": {"seed": 3}}}, "unknown key 'seed'; did you mean 'seeds'?"),
        ({"selection": {"race": {"share": 0.2}}}, "the key 'selection.race.seeds' is missing"),
        ({"selection": {"race": True}}, "selection.race: "),
        ({"selection": {"race": {"seeds": 3}}, "seeds": [0, 1, 2]}, "the space has 3 seeds"),
        (
            {"selection": {"race": {"seeds": 3}, "protocol": "greedy"}},
            "greedy goes on from states of the space's seeds",
        ),
    ],
)
def test_mistakes(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(Co2lError) as caught:
        space_of(AXES, **keys)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_off_is_no_race() -> None:
    assert space_of(AXES, selection={"race": "off"}).selection.race is None
    assert space_of(AXES, selection={"race": False}).selection.race is None
