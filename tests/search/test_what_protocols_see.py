"""Real searches under each protocol: what one may not see is not there, and is not missed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from searching import options_below, remove, search_here, write_benchmark

from co2l.data.root import data_below
from co2l.errors import Co2lError
from co2l.learning.results import Chosen, load_configurations
from co2l.search.record.choosing import choosing
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.selection.rule import runnable, select, write
from co2l.search.space.evaluation import of_configurations
from co2l.search.space.plan import plan
from co2l.search.space.space import Space, parse

SETTINGS = {"epochs": 1, "batch_size": 8, "buffer_size": 12, "minibatch_size": 4}


RACED = {"E_0": 1, "E_t": 1, "batch_size": 8, "buffer_size": 12, "probe_epochs": 1}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with data_below(str(tmp_path / "data")):
        (tmp_path / "data").mkdir()
        yield tmp_path / "data"


def space_on(benchmark: str, protocol: Any, axes: dict[str, Any] | None = None, **keys: Any) -> Space:
    document = {"benchmark": benchmark, "method": "agem", "settings": SETTINGS, "retries": 0}
    axes = axes or {"eta": [0.02, 0.1]}
    selection = {**keys.pop("selection", {}), "protocol": protocol}
    return parse({**document, "axes": axes, "selection": selection, **keys}, "space.yaml")


def came_to(record: StudyRecord) -> dict[str, Any]:
    """Every trial's result, which holds the digest of its weights."""
    return {key: entry.result for key, entry in record.finished().items()}


def test_first_k_with_later_classes_removed_from_the_disk(data: Path, tmp_path: Path) -> None:
    name = write_benchmark(data, "beasts")
    axes = {"eta": [0.02, 0.1], "class_order": ["5,2,1,0,3,4", "0,2,5,1,4,3"]}  # dog and eel are in no first task
    space = space_on(name, {"first_k": 2}, axes)
    with_all = search_here(space, tmp_path / "with", data)
    remove(data, "beasts", ["dog", "eel"])
    without = search_here(space, tmp_path / "without", data)
    assert came_to(without) == came_to(with_all)
    assert len(came_to(without)) == 4
    assert select(space, without.entries.values()) == select(space, with_all.entries.values())
    with pytest.raises(Co2lError, match="no folder for the class 'dog'"):
        search_here(space_on(name, "end", axes), tmp_path / "end", data)


def test_transfer_opens_one_benchmark_at_a_time(data: Path, tmp_path: Path) -> None:
    here, there = write_benchmark(data, "beasts"), write_benchmark(data, "others")
    mapped = {"to": there, "settings": {"epochs": 1, "batch_size": 8}, "map": {"buffer_size": {"12": 18, "15": 24}}}
    settings = {name: value for name, value in SETTINGS.items() if name != "buffer_size"}
    axes = {"eta": [0.02, 0.1], "buffer_size": [12, 15]}
    space = space_on(here, {"transfer": mapped}, axes, settings=settings)

    def whole(root: Path) -> tuple[Any, Any]:
        record = search_here(space, root, data)
        chosen = runnable(space, select(space, record.entries.values()))
        entries = record.entries.values()
        write(root / "chosen.yaml", space, select(space, entries), choosing(space, entries))
        return came_to(record), chosen

    def tested(chosen: list[dict[str, Any]], root: Path) -> Any:
        evaluation = of_configurations([Chosen.model_validate(each) for each in chosen], 2, "chosen.yaml")
        return came_to(search_here(evaluation, root, data))

    searched, chosen = whole(tmp_path / "with")
    expected = tested(chosen, tmp_path / "with test")
    (one,) = load_configurations(str(tmp_path / "with" / "chosen.yaml"))
    assert (one.benchmark, one.settings["buffer_size"]) == (there, {12: 18, 15: 24}[_best(space, tmp_path / "with")])
    assert one.settings["minibatch_size"] == 32  # that benchmark's default: nothing fixed here is taken along
    (data / "others-images").rename(data / "away")
    assert whole(tmp_path / "without") == (searched, chosen)
    (data / "away").rename(data / "others-images")
    remove(data, "beasts")
    assert tested(chosen, tmp_path / "without test") == expected


def _best(space: Space, root: Path) -> Any:
    study = StudyReader(options_below(root, root).storage).study("study")
    (chosen,) = select(study.space, study.entries.values()).selected
    assert study.space.digest == space.digest
    return chosen.values["buffer_size"]


@pytest.fixture
def beasts(data: Path) -> str:
    return write_benchmark(data, "beasts")


AXES = {"eta": [0.02, 0.1], "buffer_size": [6, 12]}
ALONE = {name: value for name, value in SETTINGS.items() if name != "buffer_size"}


def test_greedy_trains_what_the_plan_says_and_is_the_same_when_killed(beasts: str, data: Path, tmp_path: Path) -> None:
    space = space_on(beasts, "greedy", AXES, settings=ALONE, seeds=[0, 1])
    through = search_here(space, tmp_path / "through", data)
    assert plan(space).epochs_planned == 2 * (2 + 4 + 4) == through.cost().epochs_trained
    cost = choosing(space, through.entries.values())
    assert (cost.protocol, cost.epochs, cost.trained) == ("greedy 1", 20, 20)
    record, drivers = None, 0
    while record is None or len(record.finished()) < 20:
        record = search_here(space, tmp_path / "killed", data, steps=17)
        drivers += 1
        assert drivers < 30
    assert drivers > 3
    assert came_to(record) == came_to(through)
    assert select(space, record.entries.values()) == select(space, through.entries.values())


def test_a_race_is_the_same_when_killed_and_shares_first_stages(beasts: str, data: Path, tmp_path: Path) -> None:
    selection = {"race": {"seeds": 3, "share": 0.9}}
    space = space_on(beasts, "end", {"kappa": [0.1, 0.2, 0.3]}, settings=RACED, method="co2l", selection=selection)
    through = search_here(space, tmp_path / "through", data)
    seeds = [entry.seed for entry in through.finished().values()]
    assert sorted(seeds) == [0, 0, 0, 1, 1]
    # the first stage of each seed is trained once: 1 + 3 · 2 epochs in the search, 1 + 2 · 2 in the race
    assert through.cost().epochs_trained == plan(space).epochs_planned + 5 == 12
    record, drivers = None, 0
    while record is None or len(record.finished()) < 5:
        record = search_here(space, tmp_path / "killed", data, steps=17)
        drivers += 1
        assert drivers < 30
    assert drivers > 1
    assert came_to(record) == came_to(through)
    (chosen,) = select(space, record.entries.values()).selected
    assert chosen.seeds == (0, 1)
    scores: dict[object, list[float]] = {}
    for entry in record.finished().values():
        scores.setdefault(entry.values["kappa"], []).append(entry.score or 0.0)
    means = [sum(each) / 2 for each in scores.values() if len(each) == 2]
    assert chosen.score == pytest.approx(max(means))


def test_what_greedy_selects_is_evaluated_as_a_path(beasts: str, data: Path, tmp_path: Path) -> None:
    space = space_on(beasts, "greedy", AXES, settings=ALONE)
    record = search_here(space, tmp_path, data)
    choice = select(space, record.entries.values())
    write(tmp_path / "chosen.yaml", space, choice, choosing(space, record.entries.values()))
    (written,) = yaml.safe_load((tmp_path / "chosen.yaml").read_text())
    assert written["chosen_by"] == {**choosing(space, record.entries.values()).as_dict()}
    (selected,) = choice.selected
    evaluation = of_configurations(load_configurations(str(tmp_path / "chosen.yaml")), 1, "chosen.yaml")
    (trial,) = evaluation.trials()
    assert {name: trial.config.value(name) for name in selected.values} == dict(selected.values)
    assert trial.config.split.kind == "evaluation"


def test_greedy_with_one_choice_is_the_plain_run(beasts: str, data: Path, tmp_path: Path) -> None:
    one = {"eta": [0.1], "buffer_size": [12]}
    greedy = search_here(space_on(beasts, "greedy", one, settings=ALONE), tmp_path / "greedy", data)
    plain = search_here(space_on(beasts, "end", one, settings=ALONE, validation={"by": "class"}), tmp_path / "p", data)
    ((key, result),) = came_to(plain).items()
    assert came_to(greedy)[key] == result
    assert [entry.cost.epochs_trained for entry in greedy.entries.values()] == [1, 1, 1]


def test_protocols_share_stages(beasts: str, data: Path, tmp_path: Path) -> None:
    """With the same validation examples, drawn by class."""
    first = search_here(space_on(beasts, {"first_k": 2}), tmp_path, data).cost()
    space = space_on(beasts, "greedy")
    record = StudyRecord.open(f"sqlite:///{tmp_path}/other.db", "greedy", space)
    search_here(space, tmp_path, data, record=record)
    cost = choosing(space, record.entries.values())
    assert (first.epochs_trained, cost.epochs) == (4, 2 + 2 + 2)
    assert cost.trained < cost.epochs
    assert cost.hours > 0


@pytest.mark.parametrize(
    ("protocol", "keys", "message"),
    [
        ({"first_k": 9}, {}, "selection.protocol: seq_digits has 5 tasks, not 9"),
        ({"first_k": 1}, {"early_stop": True}, "a trial that learns one task cannot be stopped after it"),
        ({"first_k": 1}, {"method": "joint", "axes": {"eta": [0.1]}}, "joint learns all tasks at once"),
        ({"transfer": {"to": "r_digit"}}, {}, "transfer.to: unknown benchmark 'r_digit'; did you mean 'r_digits'?"),
        ({"transfer": {"to": "r_digits"}}, {"axes": {"E_t": [1, 2]}}, "E_t means something else on r_digits; add map"),
        ({"transfer": {"to": "r_digits", "map": {"E_t": {"1": 3}}}}, {"axes": {"E_t": [1, 2]}}, "2 is not mapped"),
        ({"transfer": {"to": "r_digits", "map": {"kapa": "same"}}}, {}, "unknown axis 'kapa'; did you mean 'kappa'?"),
        ({"transfer": {"to": "r_digits", "map": {"kappa": 3}}}, {}, "3 maps nothing"),
        ({"transfer": {"to": "r_digits", "settings": {"kapa": 3}}}, {}, "unknown setting 'kapa'"),
        ({"transfer": {"to": "r_digits"}}, {"method": "icarl", "axes": {"eta": [0.1]}}, "'icarl' cannot serve domain"),
    ],
)
def test_mistakes(protocol: Any, keys: dict[str, Any], message: str) -> None:
    document = {"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}, "selection": {"protocol": protocol}}
    with pytest.raises(Co2lError) as caught:
        parse({**document, **keys}, "space.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_evaluation_in_several_orders() -> None:
    settings = {"eta": 0.1, "class_order": 1}
    chosen = [Chosen(benchmark="seq_digits", method="er", settings={**settings, "class_order": i}) for i in range(3)]
    space = of_configurations(chosen, 2, "s", orders=3)
    found = {(trial.values["class_order"], trial.seed): trial.config.settings.class_order for trial in space.trials()}
    assert found == {(order, seed): order for order in range(3) for seed in range(2)}
    assert {trial.values["variant"] for trial in space.trials()} == {"chosen"}
    with pytest.raises(Co2lError, match="every task of r_digits has all classes, in no order"):
        of_configurations([Chosen(benchmark="r_digits")], 2, "s", orders=3)
