"""A greedy search: it costs what the plan says, goes on when killed, and chooses at every task what is best so far."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import space_of

from co2l.errors import Co2lError
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation
from co2l.search.selection.rule import select
from co2l.search.space.plan import plan
from co2l.search.space.space import Space, parse
from co2l.search.space.trial import Trial

AXES = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "E_t": [5, 10]}


def greedy(axes: Mapping[str, Any] = AXES, beam: int = 1, **keys: Any) -> Space:
    selection = {**keys.pop("selection", {}), "protocol": {"greedy": {"beam": beam}}}
    return space_of(axes, selection=selection, **keys)


def score(trial: Trial, finished_tasks: int) -> float:
    """By the choices so far: what is best depends on what was chosen before, on the seed and on the order."""
    chosen = [
        (name, value) for name, value in trial.values.items() if int(f"0{name.partition('/')[2]}") <= finished_tasks
    ]
    mixed = sum(math.sin(7 * i + 100 * float(value) + len(name)) for i, (name, value) in enumerate(chosen))
    return 50 + mixed + math.sin(trial.seed)


def search(
    space: Space, workers: int = 3, record: StudyRecord | None = None, **options: Any
) -> tuple[Any, StudyRecord]:
    record = record or StudyRecord.open(None, "s", space)
    simulation = Simulation(space, record, workers=workers, accuracy=score, **options)
    return simulation.run(), record


@settings(max_examples=12)
@given(st.integers(1, 5), st.integers(1, 2), st.integers(1, 5), st.booleans())
def test_it_costs_what_the_plan_says(beam: int, seeds: int, workers: int, orders: bool) -> None:
    """Every choice of task t from each state kept after t − 1; a trial opens the stages before it from the store."""
    axes: dict[str, Any] = {**AXES, **({"class_order": [0, 1]} if orders else {})}
    space = greedy(axes, beam, seeds=list(range(seeds)))
    points, stages, epochs, states = 0, 0, 0, 1
    for t in range(1, 6):
        choices = 3 if t == 1 else 3 * 2 * 2
        points += states * choices
        stages += states * choices
        epochs += states * (3 * 20 if t == 1 else 3 * 2 * (5 + 10))
        states = min(beam, states * choices)
    runs = seeds * (2 if orders else 1)
    planned = plan(space)
    assert (planned.trials, planned.stages, planned.epochs_planned) == (points * runs, stages * runs, epochs * runs)
    assert planned.exact
    seen, record = search(space, workers)
    assert seen.epochs_trained == record.cost().epochs_trained == planned.epochs_planned
    assert max(Counter(stage for stage, _ in seen.trained).values()) == 1
    assert len(record.finished()) == planned.trials


def by_hand(space: Space, lists: Mapping[str, list[Any]], beam: int) -> list[dict[str, Any]]:
    """The states kept after every task, best first, and after each of equal score the first on the axes."""
    kept: list[dict[str, Any]] = [{}]
    for t in range(1, 6):
        read = [name for name in lists if t > 1 or name == "eta"]
        found = []
        for state in kept:
            for values in itertools.product(*(lists[name] for name in read)):
                values_by_name = {**state, **{f"{name}/{t}": value for name, value in zip(read, values, strict=True)}}
                trials = list(space.trials_of(values_by_name))
                ranks = [lists[name.partition("/")[0]].index(value) for name, value in values_by_name.items()]
                found.append((-math.fsum(score(trial, t) for trial in trials) / len(trials), ranks, values_by_name))
        kept = [state for *_, state in sorted(found, key=lambda each: each[:2])[:beam]]
    return kept


@pytest.mark.parametrize("beam", [1, 3])
def test_it_keeps_the_best_states_after_every_task(beam: int) -> None:
    axes: dict[str, Any] = {**AXES, "class_order": [0, 1]}
    space = greedy(axes, beam, seeds=[0, 1])
    _, record = search(space)
    selected = select(space, record.entries.values()).selected
    best = by_hand(space, {name: list(axes[name]) for name in AXES}, beam)[0]
    assert [each.group for each in selected] == [{"class_order": 0}, {"class_order": 1}]
    for each in selected:
        assert {name: value for name, value in each.values.items() if name != "class_order"} == best
        assert each.settings["E_t"] == best["E_t/2"]
        assert each.margin.candidates == 12 * beam


def test_equal_scores_take_the_first_on_the_axes() -> None:
    space = greedy()
    record = StudyRecord.open(None, "s", space)
    Simulation(space, record, workers=5, accuracy=lambda *_: 50.0).run()
    (chosen,) = select(space, record.entries.values()).selected
    assert set(chosen.values.values()) == {0.01, 0.1, 5}


@pytest.mark.parametrize("beam", [1, 2])
def test_killed_at_any_time_it_goes_on_as_if_not(beam: int, tmp_path: Path) -> None:
    space = greedy(beam=beam)
    _, whole = search(space, 2)
    expected = {key: (entry.values, entry.score) for key, entry in whole.finished().items()}
    storage, stored = f"sqlite:///{tmp_path}/study.db", set[Any]()
    trained = drivers = 0
    simulation: Simulation | None = None
    while simulation is None or simulation._events:
        record, drivers = StudyRecord.open(storage, "s", space), drivers + 1
        simulation = Simulation(space, record, workers=2, accuracy=score, stored=stored)
        seen = simulation.run(until=37.0)
        lost = (attempt.trial.config.epochs[attempt.task] for _, _, attempt in simulation._events)
        trained += seen.epochs_trained - sum(lost)
        assert drivers < 60
    assert drivers > 3
    assert {key: (entry.values, entry.score) for key, entry in record.finished().items()} == expected
    assert trained == plan(space).epochs_planned
    study = StudyReader(storage).study("s")
    assert (study.left, study.space.digest) == (0, space.digest)
    assert select(study.space, study.entries.values()) == select(space, whole.entries.values())


def test_what_failed_is_not_gone_on_from_and_none_left_ends_it() -> None:
    space = greedy(retries=0)
    _, record = search(space, fails=lambda trial, _: "broken" if trial.values["eta/1"] != 0.02 else "")
    (chosen,) = select(space, record.entries.values()).selected
    assert chosen.values["eta/1"] == 0.02
    seen, record = search(space, fails=lambda *_: "broken")
    assert len(record.entries) == 3
    choice = select(space, record.entries.values())
    assert (choice.selected, len(choice.left_out)) == ((), 3)
    del seen


def test_a_choice_for_each_buffer_size_goes_on_from_states_of_its_own() -> None:
    axes = {"eta": [0.01, 0.02], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}
    space = greedy(axes, selection={"per": ["buffer_size"]})
    seen, record = search(space)
    assert seen.epochs_trained == plan(space).epochs_planned == 2 * 20 + 2 * 4 * (2 * 2) * 10
    for chosen in select(space, record.entries.values()).selected:
        assert chosen.settings["buffer_size"] == chosen.group["buffer_size"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"axes": {"eta": {"low": 0.1, "high": 0.2}}}, "greedy tries every value, and 'eta' is a range"),
        ({"algorithm": "tpe", "samples": 4}, "greedy tries every value in every task, and tpe draws some"),
        ({"early_stop": True}, "greedy stops no trial early"),
        ({"axes": {"encoder": ["digits_conv", "mnist_mlp"]}}, "encoder is the same for all tasks"),
        ({"axes": {"probe_lr": [0.1, 0.2]}}, "probe_lr is the same for all tasks"),
        ({"axes": {"method": ["er", "derpp"]}}, "method is the same for all tasks"),
        ({"method": "joint", "axes": {"eta": [0.1, 0.2]}}, "joint learns all tasks at once"),
        ({"selection": {"protocol": {"greedy": {"beam": 0}}}}, "selection.protocol.greedy.beam"),
        ({"selection": {"protocol": {"greedy": {"bean": 1}}}}, "unknown key 'bean'; did you mean 'beam'?"),
        ({"selection": {"protocol": "gredy"}}, "selection.protocol: not end, {first_k: 2}, greedy"),
        ({"selection": {"protocol": {"greedy": {}, "first_k": 2}}}, "greedy and first_k are two protocols"),
    ],
)
def test_mistakes(keys: dict[str, Any], message: str) -> None:
    document = {"benchmark": "seq_digits", "axes": {"kappa": [0.1]}, "selection": {"protocol": "greedy"}}
    with pytest.raises(Co2lError) as caught:
        parse({**document, **keys}, "space.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
