"""The choice, against one worked out by hand from a table of scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from spaces import space_of as small_space

from co2l.learning.methods import configure
from co2l.learning.results import Chosen
from co2l.search.record.choosing import Choosing
from co2l.search.record.entries import Entry, Status
from co2l.search.selection.rule import Margin, outcomes, relative, select, write
from co2l.search.space.space import Space

TABLE = {  # eta, buffer -> score by seed
    (0.01, 50): (40.0, 42.0),
    (0.01, 100): (80.0, 70.0),
    (0.02, 50): (50.0, 30.0),
    (0.02, 100): (70.0, 84.0),
    (0.05, 50): (45.0, 41.0),
    (0.05, 100): (60.0, 62.0),
}


def space_of(selection: dict[str, Any], seeds: tuple[int, ...] = (0, 1)) -> Space:
    axes = {"eta": [0.01, 0.02, 0.05], "buffer_size": [50, 100]}
    return small_space(axes, seeds=list(seeds), selection=selection)


def entries_of(space: Space, table: dict[tuple[float, int], tuple[float, ...]] = TABLE) -> list[Entry]:
    entries = []
    for trial in reversed(list(space.trials())):  # they end in any order
        eta, size = trial.values["eta"], trial.values["buffer_size"]
        assert isinstance(eta, float)
        assert isinstance(size, int)
        score = table[eta, size][space.seeds.index(trial.seed)]
        entries.append(Entry(trial.key, trial.values, trial.seed, "done", score=score))
    return entries


def chosen(space: Space, entries: list[Entry]) -> list[tuple[Any, Any, float]]:
    picked = select(space, entries).selected
    return [(each.values["eta"], each.values["buffer_size"], each.score) for each in picked]


def test_per_chooses_for_each_value() -> None:
    space = space_of({"per": ["buffer_size"]})
    assert chosen(space, entries_of(space)) == [(0.05, 50, 43.0), (0.02, 100, 77.0)]


def test_mean_over_chooses_one_for_all_and_lists_each() -> None:
    space = space_of({"mean_over": ["buffer_size"]})
    # means over sizes and seeds: 58, 58.5, 52
    assert chosen(space, entries_of(space)) == [(0.02, 50, 58.5), (0.02, 100, 58.5)]


def test_how_sure_a_selection_is() -> None:
    space = space_of({"per": ["buffer_size"]})
    small, large = select(space, entries_of(space)).selected
    assert small.margin.std == pytest.approx((45.0 - 41.0) / 2**0.5)  # of two: d / √2
    assert replace(small.margin, std=None) == Margin(3, 43.0 - 41.0, {"eta": 0.01})
    assert (large.margin.lead, large.margin.second) == (77.0 - 75.0, {"eta": 0.01})
    alone = [entry for entry in entries_of(space) if entry.values["eta"] == 0.05]
    assert replace(select(space, alone).selected[1].margin, std=None) == Margin(1, None)
    one_seed = space_of({"per": ["buffer_size"]}, seeds=(0,))
    assert select(one_seed, entries_of(one_seed)).selected[0].margin.std is None


def test_what_was_selected_brings_its_accuracies_and_their_probe() -> None:
    space = space_of({"mean_over": ["buffer_size"]})
    entries = entries_of(space)
    for entry in entries:
        average = {"class_il": entry.score - 5.0, "task_il": entry.score + 5.0}
        entry.result = {"average": average, "probes": {"final": "paper", "matrix": "fast"}}
    small, large = select(space, entries).selected  # one choice for both sizes, with the accuracies of each
    assert (small.accuracies, small.probe) == ({"class_il": 35.0, "task_il": 45.0}, "paper's probe")
    assert large.accuracies == {"class_il": 72.0, "task_il": 82.0}
    assert small.as_dict(space)["accuracies"] == small.accuracies


def test_without_either_the_best_of_all() -> None:
    space = space_of({})
    assert chosen(space, entries_of(space)) == [(0.02, 100, 77.0)]


def test_of_equal_ones_the_first_on_the_axes_wins_whatever_ended_first() -> None:
    space = space_of({"per": ["buffer_size"]})
    entries = entries_of(space, dict.fromkeys(TABLE, (33.3, 66.6)))
    for some in (entries, entries[::-1], entries[5:] + entries[:5]):
        assert [eta for eta, _, _ in chosen(space, some)] == [0.01, 0.01]


@pytest.mark.parametrize("status", ["failed", "pruned", "pending", "running"])
def test_a_configuration_that_misses_a_trial_is_not_chosen_and_named(status: Status) -> None:
    space = space_of({"per": ["buffer_size"]})
    entries = entries_of(space)
    lost = next(e for e in entries if (e.values["eta"], e.values["buffer_size"], e.seed) == (0.02, 100, 1))
    lost.status, lost.score, lost.rungs = status, None, {2: 5.0}
    lost.reason = "Traceback (most recent call last):\n  …\nthe loss became nan"
    choice = select(space, entries)
    assert [each.values["eta"] for each in choice.selected] == [0.05, 0.01]
    (line,) = choice.left_out
    assert line.startswith("eta=0.02, buffer_size=100: ")
    said = {"failed": "1 of 2 trials finished, one failed (the loss became nan)", "pruned": "stopped after 2 tasks"}
    assert line.endswith(said.get(status, "1 of 2 trials finished"))


def test_a_seed_that_never_began_is_missing_too() -> None:
    space = space_of({"per": ["buffer_size"]})
    entries = [entry for entry in entries_of(space) if entry.seed == 0 or entry.values["buffer_size"] == 50]
    choice = select(space, entries)
    assert [each.group for each in choice.selected] == [{"buffer_size": 50}]
    assert len(choice.left_out) == 3
    assert choice.missing == ("buffer_size=100: no configuration has all of its trials finished",)
    assert select(space_of({}), []).missing == ("no configuration has all of its trials finished",)


def test_scores_are_compared_within_their_group() -> None:
    space = space_of({"per": ["buffer_size"]}, seeds=(0,))
    entries = entries_of(space)
    levels = relative(space, outcomes(space, entries))
    assert levels[("eta", 0.01), ("buffer_size", 50)] == pytest.approx(40 - (40 + 50 + 45) / 3)
    assert levels[("eta", 0.01), ("buffer_size", 100)] == pytest.approx(80 - (80 + 70 + 60) / 3)


def test_the_file_says_what_to_run(tmp_path: Path) -> None:
    space = space_of({"mean_over": ["buffer_size"]})
    path = tmp_path / "selected" / "study.yaml"
    choice = select(space, entries_of(space))
    cost = Choosing("end", 40, 36, 0.5)
    write(path, space, choice, cost)
    write(path, space, choice, cost)
    assert [each.name for each in path.parent.iterdir()] == ["study.yaml"]
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [(each["settings"]["buffer_size"], each["score"]) for each in listed] == [(50, 58.5), (100, 58.5)]
    spent = {"protocol": "end", "epochs": 40, "epochs_trained": 36, "trial_hours": 0.5}
    assert [each["chosen_by"] for each in listed] == [spent, spent]
    trials = {trial.key: trial for trial in space.trials()}
    for each in listed:
        read = Chosen.model_validate(each)
        config = configure(read.benchmark, read.method, read.settings, seed=0)
        assert config.settings == trials[each["trials"][0]].config.settings
        assert [trials[key].seed for key in each["trials"]] == each["seeds"] == [0, 1]
