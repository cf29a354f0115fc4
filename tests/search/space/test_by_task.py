"""Axes with a value of their own for every task: planned and trained is every distinct prefix of a path, once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spaces import space_of

from co2l.errors import Co2lError
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation
from co2l.search.space.plan import plan
from co2l.search.space.space import Space, parse

READ_FROM = {"eta": 1, "tau": 1, "kappa": 2, "E_t": 2, "distill_power": 2}  # the task that first reads it


def brute_force(lists: Mapping[str, Sequence[Any]], per_task: Sequence[str], tasks: int, seeds: int) -> dict[str, int]:
    """Every trial's prefixes as tuples of what each task reads, in sets."""
    names = [(name, t) for name in lists for t in range(READ_FROM[name], tasks + 1) if name in per_task]
    plain = [name for name in lists if name not in per_task]
    prefixes: dict[Any, int] = {}
    trials = naive = 0
    for seed in range(seeds):
        for values in itertools.product(*(lists[name] for name in plain), *(lists[name] for name, _ in names)):
            value = dict(zip([*plain, *names], values, strict=True))
            trials, prefix = trials + 1, (seed,)
            for t in range(1, tasks + 1):
                read = {name: value.get((name, t), value.get(name)) for name in lists if READ_FROM[name] <= t}
                prefix = (*prefix, *read.items(), t)
                epochs = 20 if t == 1 else read.get("E_t", 10)
                prefixes[prefix] = epochs
                naive += epochs
    return {"trials": trials, "stages": len(prefixes), "epochs_naive": naive, "epochs_planned": sum(prefixes.values())}


values = st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=2, unique=True)
axes = st.dictionaries(st.sampled_from(sorted(READ_FROM)), values, min_size=1, max_size=3)


@settings(max_examples=25)
@given(axes, st.data(), st.sampled_from([2, 5]), st.integers(1, 2), st.integers(1, 4))
def test_planned_and_trained_is_every_distinct_prefix(
    lists: dict[str, list[int]], data: st.DataObject, tasks: int, seeds: int, workers: int
) -> None:
    per_task = data.draw(st.lists(st.sampled_from(sorted(lists)), min_size=1, unique=True))
    expected = brute_force(lists, per_task, tasks, seeds)
    if expected["trials"] > 600:
        return
    document = {"benchmark": "seq_digits", "settings": {"tasks": tasks, "E_0": 20}, "axes": lists}
    document["settings"] |= {} if "E_t" in lists else {"E_t": 10}
    space = parse({**document, "per_task": per_task, "seeds": list(range(seeds))}, "space.yaml")
    planned = plan(space)
    assert {name: getattr(planned, name) for name in expected} == expected
    record = StudyRecord.open(None, "s", space)
    seen = Simulation(space, record, workers=workers).run()
    assert seen.epochs_trained == record.cost().epochs_trained == expected["epochs_planned"]
    assert max(Counter(stage for stage, _ in seen.trained).values()) == 1
    assert len(record.finished()) == expected["trials"]


def per_task_space(**keys: Any) -> Space:
    return space_of({"eta": [0.1, 0.2], "kappa": [0.1, 0.2]}, per_task=["kappa"], **keys)


def test_the_stages_are_those_of_the_content_keys() -> None:
    space = per_task_space()
    planned = plan(space)
    uses = Counter(trial.config.stage_key(t) for trial in space.trials() for t in range(5))
    assert planned.stages == len(uses)
    assert planned.shared == {key for key, n in uses.items() if n > 1}
    for one, other in itertools.combinations(list(space.trials())[:12], 2):
        shared = [one.config.stage_key(t) == other.config.stage_key(t) for t in range(5)]
        assert [one.segment(t) == other.segment(t) for t in range(5)] == shared


def test_its_axes_are_named_by_task_and_come_in_the_order_of_tasks() -> None:
    space = space_of({"kappa": [0.1, 0.2], "E_0": [3, 4], "eta": [0.1]}, per_task=["eta", "kappa", "E_0"])
    expected = ["eta/1", "E_0/1", *(f"{name}/{t}" for t in range(2, 6) for name in ("eta", "kappa"))]
    assert sorted(space.axes) == sorted(expected)
    assert [name.rpartition("/")[2] for name in space.axes] == sorted(name.rpartition("/")[2] for name in expected)
    again = parse({**space.canonical(), "samples": None}, "again.yaml")
    assert (again.axes, again.digest) == (space.axes, space.digest)
    assert [trial.key for trial in again.trials()] == [trial.key for trial in space.trials()]


def test_one_choice_per_task_has_the_keys_of_the_plain_space() -> None:
    (path,) = space_of({"eta": [0.1], "kappa": [0.3]}, per_task=["eta", "kappa"]).trials()
    (plain,) = space_of({"eta": [0.1], "kappa": [0.3]}).trials()
    assert path.config == plain.config
    assert path.key == plain.key


def test_a_value_of_one_task_may_be_a_setting_or_an_axis() -> None:
    space = space_of(
        {"kappa/3": [0.1, 0.2], "eta": [0.1]}, settings={"E_0": 20, "E_t": 10, "kappa": 0.5, "eta/5": 0.01}
    )
    for trial in space.trials():
        given = [trial.config.value(f"kappa/{t}") for t in range(2, 6)]
        assert given == [0.5, trial.values["kappa/3"], 0.5, 0.5]
        assert [trial.config.value(f"eta/{t}") for t in range(1, 6)] == [0.1, 0.1, 0.1, 0.1, 0.01]
    assert parse({**space.canonical(), "samples": None}, "again.yaml").digest == space.digest
    assert plan(space).stages == 2 + 2 * 3
    assert next(per_task_space().with_settings({"kappa": 0.4}).trials()).config.settings.kappa == 0.4


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"per_task": ["kapa"]}, "per_task: unknown axis 'kapa'; did you mean 'kappa'?"),
        ({"axes": {"width": [64, 32]}, "per_task": ["width"]}, "per_task: width is the same for all tasks"),
        ({"axes": {"kappa/9": [0.1]}}, "axes.kappa/9: there are 5 tasks"),
        ({"axes": {"kappa/1": [0.1]}}, "axes.kappa/1: task 1 does not read kappa"),
        ({"axes": {"kapa/2": [0.1]}}, "axes: unknown setting 'kapa'"),
        ({"axes": {"kappa/2": [-0.1]}}, "axes.kappa/2: input should be greater than 0"),
        ({"axes": {"kappa": [0.1], "tasks": [2, 5]}, "per_task": ["kappa"]}, "trials learn different numbers of tasks"),
        ({"axes": {"kappa": [i / 100 for i in range(1, 40)]}, "per_task": ["kappa"]}, "the grid has 2.31e+06 trials"),
    ],
)
def test_mistakes(keys: dict[str, Any], message: str) -> None:
    document = {"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}}
    with pytest.raises(Co2lError) as caught:
        parse({**document, **keys}, "space.yaml")
    assert message in str(caught.value)
