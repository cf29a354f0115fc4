"""What the report on protocols shows, from made-up results whose tables are known by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sample_protocols
from sample_protocols import result
from scipy import stats

from co2l.reporting import html, markdown
from co2l.reporting.document import Figure, Gap, Report, Table, Text
from co2l.reporting.protocol_tables import report
from co2l.reporting.protocols import Effort, ProtocolResult, comparisons

SCORES = {
    "end": {"co2l": 90.0, "er": 88.0, "derpp": 86.0},
    "first_k 1": {"co2l": 84.0, "er": 88.0, "derpp": 86.0},
    "transfer to r_digits": {"co2l": 70.0, "er": 72.0, "derpp": 74.0},
}


def results(**fields: Any) -> list[ProtocolResult]:
    """Three methods under three protocols; ER is chosen alike by `end` and `first_k 1`."""
    found = [
        result(
            method,
            protocol,
            score,
            orders=[-1.0, 0.0, 1.0],
            configuration=f"{method} {protocol if method != 'er' else 'same'} {protocol[:5] == 'trans'}",
            tested_on="r_digits" if protocol.startswith("transfer") else "seq_digits",
            choosing=Effort(100 * i + 10 * j, 1.0),
            unseen=("kappa", "buffer_size") if (method, protocol) == ("co2l", "first_k 1") else (),
            **fields,
        )
        for i, (protocol, of_methods) in enumerate(SCORES.items(), 1)
        for j, (method, score) in enumerate(of_methods.items(), 1)
    ]
    assert len({each.configuration for each in found}) == 8
    return found


def made(several: list[ProtocolResult]) -> Report:
    return report(several, title="t", about="a", to_run="co2l protocols")


def tables(of: Report) -> dict[str, Table]:
    """By the beginning of the caption."""
    return {block.caption.split(",")[0].split(":")[0]: block for block in of.walk() if isinstance(block, Table)}


def rows(table: Table) -> list[list[str]]:
    return [[item.text for item in row] for row in table.rows]


def test_methods_are_ranked_under_each_protocol() -> None:
    table = tables(made(results()))["Accuracy on test data in percent"]
    assert [column.name for column in table.columns] == [
        *("protocol", "method", "rank", "score", "Class-IL", "Task-IL", "less `end`", "seeds", "orders"),
        "epochs to choose",
    ]
    assert rows(table)[:6] == [
        ["`end`", "co2l", "1", "90.00", "80.00", "100.00", "–", "3", "3", "110"],
        ["`end`", "er", "2", "88.00", "78.00", "98.00", "–", "3", "3", "120"],
        ["`end`", "derpp", "3", "86.00", "76.00", "96.00", "–", "3", "3", "130"],
        ["`first_k 1`", "er", "1", "88.00", "78.00", "98.00", "0", "3", "3", "220"],
        ["`first_k 1`", "derpp", "2", "86.00", "76.00", "96.00", "+0.00", "3", "3", "230"],
        ["`first_k 1`", "co2l", "3", "84.00", "74.00", "94.00", "−6.00", "3", "3", "210"],
    ]
    assert [row[1] for row in rows(table)[6:]] == ["derpp", "er", "co2l"]
    # seeds' means −0.1, 0, 0.1: variance 0.01, over 3 seeds 1/300; orders' −1, 0, 1: 1/3. Its root is 0.5802, and
    # times t with (1/300 + 1/3)² / ((1/300)² / 2 + (1/3)² / 2) = 2.04 degrees of freedom
    half = 0.5802 * stats.t.ppf(0.975, 2.04)
    assert not any("beyond 100%" in note for note in table.notes)
    high = tables(made([result("er", "end", 99.0, seeds=[-3.0, 0.0, 3.0])]))["Accuracy on test data in percent"]
    assert any("beyond 100%" in note for note in high.notes)
    assert table.rows[0][3].below == f"[{90 - half:.2f}, {90 + half:.2f}]"
    assert table.rows[3][6].below == "the same choice"
    assert table.rows[8][6].text == "–", "nothing was chosen by `end` on the other benchmark"


def test_what_was_transferred_is_compared_with_what_is_chosen_there() -> None:
    there = [result("er", "end", 75.0, benchmark="r_digits", tested_on="r_digits")]
    found = [block for block in made([*results(), *there]).walk() if isinstance(block, Table)]
    (table,) = [table for table in found if table.caption.startswith("Accuracy") and "seq_digits" in table.caption]
    assert [row[6] for row in rows(table) if row[:2] == ["`transfer to r_digits`", "er"]] == ["−4.00"]  # order 0 alone
    assert [row[6] for row in rows(table) if row[:2] == ["`transfer to r_digits`", "co2l"]] == ["–"]


def test_the_agreement_of_every_two_rankings() -> None:
    table = tables(made(results()))["How far the rankings of two protocols agree"]
    # co2l, er, derpp are 1 2 3, then 3 1 2, then 3 2 1: of three pairs 1, 0 and 2 agree
    assert rows(table) == [["`first_k 1`", "−0.33", ""], ["`transfer to r_digits`", "−1.00", "+0.33"]]


def test_the_variance_is_split_for_each_benchmark_tested_on() -> None:
    found = [block for block in made(results()).walk() if isinstance(block, Table) and "variance" in block.caption]
    one, two = found
    # equal differences everywhere: no interactions. Orders −1, 0, 1 have variance 1, seeds 0.01; configurations
    # 90, 88, 86, 84, 86 (ER's choice counts once): mean 86.8, squares 20.8 / 4 = 5.2; sum 6.21
    assert rows(one)[:3] == [["configuration", "2.28", "84%"], ["order", "1.00", "16%"], ["seed", "0.10", "0%"]]
    assert [row[1] for row in rows(one)[3:]] == ["0.00"] * 4
    assert one.notes[0].startswith("5 configurations, 3 orders, 3 seeds")
    assert rows(two)[0] == ["configuration", "2.00", "80%"]  # 70, 72, 74: variance 4 of 5.01


def test_single_levels_missing_runs_and_single_runs_are_said() -> None:
    alone = [block for block in made([result("er", "end", 80.0)]).walk() if isinstance(block, Table)]
    (variance,) = [table for table in alone if "variance" in table.caption]
    assert rows(variance) == [["seed", "0.10", "100%"]]
    assert any("There is one configuration and one order" in note for note in variance.notes)
    said = [b.what for b in made([result("er", "end", 80.0, seeds=[0.0])]).walk() if isinstance(b, Gap)]
    assert said == ["On `seq_digits` there is a single run, which has no variance."]
    apart = [result("er", "end", 80.0), result("der", "end", 80.0, first_seed=7)]
    assert any("no run is common to all 2" in b.what for b in made(apart).walk() if isinstance(b, Gap))
    holes = result("er", "end", 80.0, orders=[0.0, 1.0])
    holes = ProtocolResult(
        **{**vars(holes), "accuracies": {run: holes.accuracies[run] for run in holes.accuracies if run != (2, 1)}}
    )
    table = tables(made([holes]))["Accuracy on test data in percent"]
    assert rows(table)[0][-3:-1] == ["2", "2"]
    assert table.notes[-1] == "1 runs are left out: without them every seed has every order."


def test_costs_are_sorted_and_the_best_for_their_price_marked() -> None:
    table = tables(made(results()))["Accuracy over total compute"]
    assert [[row[0], row[1], row[4], row[-1]] for row in rows(table)] == [
        ["co2l", "`end`", "150", "●"],  # nothing on seq_digits is better, and all else costs more
        ["er", "`end`", "160", ""],
        ["derpp", "`end`", "170", ""],
        ["co2l", "`first_k 1`", "250", ""],
        ["er", "`first_k 1`", "260", ""],
        ["derpp", "`first_k 1`", "270", ""],
        ["co2l", "`transfer to r_digits`", "350", "●"],
        ["er", "`transfer to r_digits`", "360", "●"],
        ["derpp", "`transfer to r_digits`", "370", "●"],
    ]
    assert rows(table)[0][2:6] == ["110", "40", "150", "1.02"]


def test_budgets_at_which_methods_overtake() -> None:
    one = result("er", "end", 80.0, curve=((10, 60.0), (20, 70.0), (40, 75.0)))
    two = result("co2l", "end", 82.0, curve=((15, 65.0), (30, 72.0), (90, 90.0)))
    table = tables(made([one, two]))["The budgets at which the order of two methods changes"]
    last = "…, then er from 20, then co2l from 30, then er from 40, then co2l from 90"
    assert rows(table) == [["`end`", "co2l, er", last, "4"]]
    assert "The budgets" not in " ".join(tables(made([one])))


def test_a_report_has_two_figures_for_each_benchmark_and_says_what_they_show() -> None:
    drawn = made(results(curve=((10, 60.0),)))
    figures = [block for block in drawn.walk() if isinstance(block, Figure)]
    assert [figure.name for figure in figures] == ["protocols-1-overview", "protocols-1-courses"]
    left, right = figures[0].drawing.axes
    assert len(left.containers) == len(right.lines) == 9
    assert [label.get_text() for label in left.get_xticklabels()] == ["end", "first_k\n1", "transfer\nto r_digits"]
    assert "co2l, end: 90.00" in figures[0].alternative
    page = html.render(drawn)
    assert page.count("<figure>") == 2
    assert "overview.png" in markdown.render(drawn)


def test_what_was_selected_is_listed_by_method() -> None:
    several = [
        result("er", "end", 80.0, chosen="eta=0.1"),
        result("er", "greedy 1", 80.0, chosen="eta/1=0.1, eta/2=0.2"),
    ]
    table = tables(made([result("co2l", "end", 1.0), *several]))["What each protocol selected"]
    assert rows(table) == [["er", "`end`", "eta=0.1"], ["er", "`greedy 1`", "eta/1=0.1, eta/2=0.2"]]
    assert table.notes
    assert not tables(made(several[:1]))["What each protocol selected"].notes


def test_axes_that_a_protocol_cannot_see_are_named() -> None:
    said = " ".join(block.text for block in made(results()).walk() if isinstance(block, Text))
    assert "co2l under `first_k 1`: `kappa`, `buffer_size`." in said


def test_what_is_missing_is_a_gap_with_its_command() -> None:
    untested = ProtocolResult(
        **{**vars(results()[0]), "accuracies": {}, "method": "der", "command": "co2l evaluate --study der"}
    )
    found = [block for block in made([*results(), untested]).walk() if isinstance(block, Gap)]
    assert Gap("der under `end` is searched but not tested.", "co2l evaluate --study der") in found
    begun = ProtocolResult(**{**vars(untested), "left": 3})
    said = [block.what for block in made([begun]).walk() if isinstance(block, Gap)]
    assert said == ["der under `end`: its search has 3 trials left; run its command again."]
    assert [each.what for each in found if "Not searched" in each.what] == [
        "Not searched under `first_k 1`: der.",
        "Not searched under `transfer to r_digits`: der.",
    ]
    assert made([]).gaps() == [
        Gap("No search in this storage has a selection protocol and an evaluation.", "co2l protocols")
    ]
    assert [section.parts for section in made([untested]).sections] == [()]


def test_each_benchmark_and_group_has_its_own_table() -> None:
    several = [
        result("er", "end", 80.0, group="buffer_size=50"),
        result("er", "end", 81.0, group="buffer_size=100"),
        result("er", "end", 82.0, benchmark="r_digits"),
    ]
    assert [section.title for section in made(several).sections] == [
        "r_digits",
        "seq_digits, buffer_size=100",
        "seq_digits, buffer_size=50",
    ]


def test_results_survive_json() -> None:
    several = results(curve=((10, 60.0),))
    plain = json.loads(json.dumps([each.as_dict() for each in several]))
    assert [ProtocolResult.from_dict(each) for each in plain] == several
    assert comparisons(several)[0].protocols == ("end", "first_k 1", "transfer to r_digits")


@pytest.mark.parametrize("protocols", [["greedy 1"], ["end", "greedy 1"]])
def test_one_method_still_makes_a_report(protocols: list[str]) -> None:
    drawn = made(sample_protocols.grid(["er"], protocols, {"er": 80.0}.__getitem__))
    assert "How far the rankings" not in " ".join(tables(drawn))
    assert any("there is no ranking" in block.text for block in drawn.walk() if isinstance(block, Text))
