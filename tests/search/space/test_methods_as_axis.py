"""Several methods in one space: the axis `method`, and settings that only one of them has."""

from __future__ import annotations

from typing import Any

import pytest
from spaces import finish

from co2l.errors import Co2lError
from co2l.learning.methods import configure
from co2l.learning.results import Chosen
from co2l.search.record.entries import Entry
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation
from co2l.search.selection.rule import select
from co2l.search.space.estimate import Timed, estimate
from co2l.search.space.evaluation import of_configurations, of_space
from co2l.search.space.memory import memory
from co2l.search.space.plan import plan
from co2l.search.space.space import Space, parse

DOCUMENT: dict[str, Any] = {
    "benchmark": "seq_digits",
    "settings": {"epochs": 3},
    "axes": {"method": ["er", "derpp"], "buffer_size": [50, 100]},
    "methods": {"er": {"eta": 0.2}, "derpp": {"eta": 0.05, "alpha": 0.3}},
}


def space_of(**keys: Any) -> Space:
    return parse({**DOCUMENT, **keys}, "space.yaml")


def test_every_method_has_its_own_settings_and_the_shared_ones() -> None:
    found = {(trial.values["method"], trial.values["buffer_size"]): trial.config for trial in space_of().trials()}
    for method, own in DOCUMENT["methods"].items():
        for size in (50, 100):
            expected = configure("seq_digits", method, {"epochs": 3, "buffer_size": size, **own})
            assert found[method, size] == expected
    assert len(found) == 4
    assert space_of().method_title == "er, derpp"


def test_no_stage_is_shared_between_methods() -> None:
    space = space_of(axes={"method": ["er", "finetune"]}, methods={})
    found = plan(space)
    assert (found.trials, found.first_stages, found.stages, found.ratio) == (2, 2, 10, 1.0)


def test_what_is_stored_is_the_same_space(tmp_path: Any) -> None:
    space, url = space_of(), f"sqlite:///{tmp_path}/study.db"
    StudyRecord.open(url, "s", space)
    stored = StudyReader(url).study("s").space
    assert [trial.key for trial in stored.trials()] == [trial.key for trial in space.trials()]
    assert not space.difference(stored)
    grown = space_of(axes={**DOCUMENT["axes"], "method": ["er", "der", "derpp"]})
    assert len(list(StudyRecord.open(url, "s", grown).space.trials())) == 6
    axes = {**DOCUMENT["axes"], "method": ["er", "der", "derpp"]}
    other = space_of(axes=axes, methods={**DOCUMENT["methods"], "derpp": {"eta": 0.05, "alpha": 0.4}})
    with pytest.raises(Co2lError, match=r"methods.derpp.alpha: 0.3 → 0.4"):
        StudyRecord.open(url, "s", other)


def test_a_search_chooses_the_best_method_or_one_configuration_for_each(tmp_path: Any) -> None:
    for selection, methods in (({}, ["derpp"]), ({"per": ["method"]}, ["er", "derpp"])):
        space = space_of(selection=selection)
        score = {("er", 50): 60.0, ("er", 100): 70.0, ("derpp", 50): 75.0, ("derpp", 100): 65.0}
        entries = [
            Entry(each.key, each.values, 0, "done", score=score[each.values["method"], each.values["buffer_size"]])
            for each in space.trials()
        ]
        chosen = [each.as_dict(space) for each in select(space, entries).selected]
        assert [each["method"] for each in chosen] == methods
        assert [each["settings"]["buffer_size"] for each in chosen] == [
            {"er": 100, "derpp": 50}[each] for each in methods
        ]
        evaluation = of_configurations([Chosen.model_validate(each) for each in chosen], 2, "selected.yaml")
        keys = {each["method"]: configure("seq_digits", each["method"], each["settings"]).settings for each in chosen}
        assert {trial.config.method: trial.config.settings for trial in evaluation.trials()} == keys
        name, url = "+".join(methods), f"sqlite:///{tmp_path}/study.db"
        record = StudyRecord.open(url, name, evaluation)
        for trial in evaluation.trials():
            finish(record, trial)
        again = StudyReader(url).study(name).space
        assert [trial.key for trial in again.trials()] == [trial.key for trial in evaluation.trials()]


def test_plan_memory_and_estimate_know_the_methods() -> None:
    space = space_of()
    assert {need.settings["method"] for need in memory(space).needs} == {"er", "derpp"}
    timed: list[str] = []

    def timing(config: Any, work: dict[str, Any]) -> Timed:
        timed.append(config.method)
        return Timed(work, 8, 1.0, 1.0, (10, 10), False)

    estimate(space, timing)
    assert timed == ["er", "derpp"]
    assert len(list(of_space(space, 2).trials())) == 8


def test_a_whole_search_of_two_methods_is_simulated() -> None:
    space = space_of(selection={"per": ["method"]}, seeds=[0, 1])
    record = StudyRecord.open(None, "s", space)
    Simulation(space, record, workers=2).run()
    assert len(record.finished()) == 8
    assert [each.values["method"] for each in select(space, record.entries.values()).selected] == ["er", "derpp"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"settings": {"alpha": 0.1}}, "'alpha' is not a setting of method 'er'; give it under methods.derpp"),
        ({"axes": {"method": ["er", "derpp"], "alpha": [1]}}, "axes.alpha: 'alpha' is not a setting of method 'er'"),
        ({"axes": {"method": ["er", "derp"]}}, "axes.method: unknown method 'derp'; did you mean 'derpp'?"),
        ({"axes": {"method": {"low": 1, "high": 2}}}, "axes.method: methods have no range; list them"),
        ({"methods": {"erp": {}}}, "methods: unknown method 'erp'"),
        ({"methods": {"er": {"alpha": 1.0}}}, "methods.er.alpha: 'alpha' is not a setting of method 'er'"),
        ({"methods": {"er": {"epochs": 1}}}, "methods.er.epochs: epochs is fixed under settings too"),
        ({"methods": {"er": {"buffer_size": 20}}}, "methods.er.buffer_size: buffer_size is an axis too"),
        ({"methods": {"er": {"eta": [0.1, 0.2]}}}, "methods.er.eta: [0.1, 0.2] is not one value"),
        ({"methods": {"er": {"eta": -1}}}, "methods.er.eta: input should be greater than 0, got -1"),
        ({"method": "er"}, "method: method is an axis too"),
        ({"axes": {"eta": [0.1]}}, "methods: no method is an axis; add axes: {method: [er, derpp]}"),
        ({"axes": {"method": ["er", "gem"], "buffer_size": [4, 50]}, "methods": {}}, "axes.buffer_size: buffer_size=4"),
        ({"axes": {"method": ["er", "joint"]}, "methods": {}, "early_stop": "on"}, "joint learns all tasks at once"),
    ],
)  # fmt: skip
def test_mistakes(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(Co2lError) as caught:
        space_of(**keys)
    assert said in str(caught.value)
