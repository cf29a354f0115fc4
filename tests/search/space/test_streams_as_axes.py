"""How many tasks, and in which order: as settings and axes of a space, in its plan, estimate, memory and selection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from co2l.errors import Co2lError
from co2l.learning.footprint import footprint
from co2l.learning.methods import configure
from co2l.search.record.entries import Entry
from co2l.search.selection.rule import select
from co2l.search.space.estimate import estimate, measured
from co2l.search.space.evaluation import of_space
from co2l.search.space.plan import plan
from co2l.search.space.space import Space, parse

REVERSED = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def space_of(axes: dict[str, Any], **keys: Any) -> Space:
    document = {"benchmark": "seq_digits", "method": "er", "axes": axes, **keys}
    document["settings"] = {"epochs": 2, "minibatch_size": 8, **keys.get("settings", {})}
    return parse(document, "space.yaml")


def test_an_order_is_one_value_and_may_be_a_list() -> None:
    for space in (
        space_of({"eta": [0.1]}, settings={"class_order": REVERSED}),
        space_of({"class_order": [REVERSED]}),
    ):
        (trial,) = space.trials()
        assert trial.config.spec.class_order == tuple(REVERSED)
        again = parse({**space.canonical()}, "stored")
        assert [each.key for each in again.trials()] == [trial.key]
    three = space_of({"class_order": [0, 1, REVERSED, "fixed", "seed"]}, seeds=[0, 1])
    assert len({trial.config.stage_key(0) for trial in three.trials()}) == 10
    with pytest.raises(Co2lError, match=r"axes.class_order: no order of classes, got 'sorted'; class_order is: the"):
        space_of({"class_order": [0, "sorted"]})
    with pytest.raises(Co2lError, match=r"settings.class_order: not an order of the 10 classes, got 1,2"):
        space_of({"eta": [0.1]}, settings={"class_order": [1, 2]})


def test_the_benchmarks_own_stream_is_no_change_of_a_space() -> None:
    plain = space_of({"eta": [0.1]})
    own = space_of({"eta": [0.1]}, settings={"tasks": 5, "class_order": list(range(10))})
    assert "tasks" not in plain.canonical()["settings"]
    assert plain.difference(own) == ['settings.class_order: nothing → "0,1,2,3,4,5,6,7,8,9"']
    assert not plain.difference(space_of({"eta": [0.1]}, settings={"tasks": 5, "class_order": "fixed"}))


def test_a_search_takes_the_mean_over_orders_and_never_chooses_one() -> None:
    space = space_of(
        {"eta": [0.1, 0.2], "buffer_size": [50, 100], "class_order": [0, 1]}, selection={"per": ["buffer_size"]}
    )
    assert space.selection.mean_over == ("class_order",)
    assert space.trials_per_point == 2
    score = {(0.1, 0): 90.0, (0.1, 1): 50.0, (0.2, 0): 71.0, (0.2, 1): 75.0}
    entries = [
        Entry(
            trial.key, trial.values, trial.seed, "done", score=score[trial.values["eta"], trial.values["class_order"]]
        )
        for trial in space.trials()
    ]
    chosen = select(space, entries).selected
    assert [(each.values["eta"], each.values["buffer_size"], each.values["class_order"]) for each in chosen] == [
        (0.2, 50, 0), (0.2, 50, 1), (0.2, 100, 0), (0.2, 100, 1),
    ]  # fmt: skip
    assert {each.score for each in chosen} == {73.0}
    assert chosen[1].settings["class_order"] == 1
    assert "class_order" not in space_of({"eta": [0.1]}).selection.mean_over
    per = space_of({"eta": [0.1, 0.2], "tasks": [2, 5]}, selection={"per": ["tasks"]})
    assert per.selection.mean_over == ()


def test_the_plan_knows_the_tasks_of_each_trial() -> None:
    space = space_of({"tasks": [2, 5, 10], "eta": [0.1]})
    found = plan(space)
    assert (found.trials, found.first_stages, found.stages, found.epochs_naive) == (3, 3, 2 + 5 + 10, 2 * (2 + 5 + 10))
    assert [len(trial.config.epochs) for trial in space.trials()] == [2, 5, 10]
    evaluation = of_space(space, 2)
    assert plan(evaluation).trials == 6


def test_the_estimate_and_the_memory_know_the_size_of_a_task(tmp_path: Path) -> None:
    space = space_of({"tasks": [2, 10], "class_order": [0, 1]})
    timed = estimate(space, measured(data=tmp_path, device=torch.device("cpu"))).timed
    assert [each.settings["tasks"] for each in timed] == [2, 10]  # orders take the same time
    assert timed[0].sizes[0] > 4 * timed[1].sizes[0]
    two, ten = (configure("seq_cifar10", "er", {"tasks": tasks}) for tasks in (2, 10))
    assert [footprint(config, 0).examples for config in (two, ten)] == [45_000 // 2, 45_000 // 10]


def test_rungs_end_before_the_shortest_stream() -> None:
    space = space_of({"eta": [0.1, 0.2]}, settings={"tasks": 10}, early_stop="on")
    assert space.early_stop is not None
    assert space.early_stop.rungs == tuple(range(2, 10))
    with pytest.raises(
        Co2lError, match=r"rungs: a rung after 3 tasks stops nothing: seq_digits has 2 here; use .*1 to 1"
    ):
        space_of({"eta": [0.1, 0.2], "tasks": [2, 5]}, early_stop={"rungs": [1, 3]})
