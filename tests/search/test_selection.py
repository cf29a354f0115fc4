"""The choice, against one worked out by hand from a table of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from co2l.learning.methods import configure
from co2l.learning.results import Chosen
from co2l.search.reports import Entry, Status
from co2l.search.selection import outcomes, relative, select, write
from co2l.search.space import Space, parse

TABLE = {  # eta, buffer -> score by seed
    (0.01, 50): (40.0, 42.0),
    (0.01, 100): (80.0, 70.0),
    (0.02, 50): (50.0, 30.0),
    (0.02, 100): (70.0, 84.0),
    (0.05, 50): (45.0, 41.0),
    (0.05, 100): (60.0, 62.0),
}


def space_of(selection: dict[str, Any], seeds: tuple[int, ...] = (0, 1)) -> Space:
    document = {
        "benchmark": "seq_digits",
        "settings": {"E_0": 20, "E_t": 10},
        "axes": {"eta": [0.01, 0.02, 0.05], "buffer_size": [50, 100]},
        "seeds": list(seeds),
        "selection": selection,
    }
    return parse(document, "space.yaml")


def entries_of(space: Space, table: dict[tuple[float, int], tuple[float, ...]] = TABLE) -> list[Entry]:
    entries = []
    for cell in reversed(list(space.cells())):  # they end in any order
        eta, size = cell.values["eta"], cell.values["buffer_size"]
        assert isinstance(eta, float)
        assert isinstance(size, int)
        score = table[eta, size][space.seeds.index(cell.seed)]
        entries.append(Entry(0, cell.key, cell.values, cell.seed, "done", score=score))
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


def test_without_either_the_best_of_all() -> None:
    space = space_of({})
    assert chosen(space, entries_of(space)) == [(0.02, 100, 77.0)]


def test_of_equal_ones_the_first_on_the_axes_wins_whatever_ended_first() -> None:
    space = space_of({"per": ["buffer_size"]})
    entries = entries_of(space, dict.fromkeys(TABLE, (33.3, 66.6)))
    for some in (entries, entries[::-1], entries[5:] + entries[:5]):
        assert [eta for eta, _, _ in chosen(space, some)] == [0.01, 0.01]


@pytest.mark.parametrize("status", ["failed", "pruned", "pending", "running"])
def test_a_configuration_that_misses_a_cell_is_not_chosen_and_named(status: Status) -> None:
    space = space_of({"per": ["buffer_size"]})
    entries = entries_of(space)
    lost = next(e for e in entries if (e.values["eta"], e.values["buffer_size"], e.seed) == (0.02, 100, 1))
    lost.status, lost.score, lost.reason, lost.rungs = status, None, "first line\nthe loss became nan", {2: 5.0}
    choice = select(space, entries)
    assert [each.values["eta"] for each in choice.selected] == [0.05, 0.01]
    (line,) = choice.left_out
    assert line.startswith("eta=0.02, buffer_size=100: ")
    said = {"failed": "1 of 2 cells finished, one failed (the loss became nan)", "pruned": "stopped after 2 tasks"}
    assert line.endswith(said.get(status, "1 of 2 cells finished"))


def test_a_seed_that_never_began_is_missing_too() -> None:
    space = space_of({"per": ["buffer_size"]})
    entries = [entry for entry in entries_of(space) if entry.seed == 0 or entry.values["buffer_size"] == 50]
    choice = select(space, entries)
    assert [each.group for each in choice.selected] == [{"buffer_size": 50}]
    assert len(choice.left_out) == 3
    assert choice.missing == ("buffer_size=100: no configuration has all of its cells finished",)
    assert select(space_of({}), []).missing == ("no configuration has all of its cells finished",)


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
    write(path, space, choice)
    write(path, space, choice)
    assert [each.name for each in path.parent.iterdir()] == ["study.yaml"]
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [(each["settings"]["buffer_size"], each["score"]) for each in listed] == [(50, 58.5), (100, 58.5)]
    cells = {cell.key: cell for cell in space.cells()}
    for each in listed:
        read = Chosen.model_validate(each)
        config = configure(read.benchmark, read.method, read.settings, seed=0)
        assert config.settings == cells[each["cells"][0]].config.settings
        assert [cells[key].seed for key in each["cells"]] == each["seeds"] == [0, 1]
