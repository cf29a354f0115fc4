"""Reports from a real storage whose accuracies are made up: what is shown where, and what is a gap."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_studies

from co2l.errors import Co2lError
from co2l.reporting import paper_figures, paper_tables
from co2l.reporting.document import Figure, Gap, Report, Section, Table
from co2l.reporting.experiments import EXPERIMENTS, TABLE_1, fill
from co2l.reporting.gather import read, report
from co2l.search.record.entries import Cost
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import load

Row = list[str]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    sample_studies.fill(folder)
    return folder


@pytest.fixture(scope="module")
def whole(root: Path) -> Report:
    return made(root)


def made(root: Path, *names: str) -> Report:
    return report(
        read(StudyReader(sample_studies.url(root)), names, root="runs", store=f"{root}/store"), title="t", about="a"
    )


def section(of: Report, name: str) -> Section:
    return next(each for each in of.sections if each.name == name)


def table(of: Report, name: str, nth: int = 0) -> list[Row]:
    found = [block for block in section(of, name).walk() if isinstance(block, Table)]
    return [[item.text for item in row] for row in found[nth].rows]


def gaps(of: Report, name: str) -> str:
    return " ".join(f"{block.what} {block.command}" for block in section(of, name).walk() if isinstance(block, Gap))


def test_orders_have_a_row_each_and_their_variance_is_told_from_that_of_seeds(tmp_path: Path) -> None:
    accuracy = {(0, 0): 80.0, (0, 1): 82.0, (1, 0): 70.0, (1, 1): 74.0}  # by order and seed

    def found(settings: Mapping[str, Any], seed: int) -> float:
        return accuracy[settings["class_order"], seed] if "class_order" in settings else 90.0

    orders = {"class_order": [0, 1]}
    space = sample_studies.evaluation(orders, 2, settings={"tasks": 10})
    sample_studies.record(tmp_path, "orders.test", space, found)
    of = made(tmp_path)
    one, two, both = table(of, "streams")
    assert one[:6] == ["method=co2l", "10", "number 0", "81.00", "1.41", "–"]
    assert two[:6] == ["method=co2l", "10", "number 1", "72.00", "2.83", "–"]
    # within: variances 2 and 8, pooled 5; of the means 40.5, of which 5 / 2 is the seeds'
    assert both[:6] == ["method=co2l", "10", "all 2 orders", "76.50", f"{5**0.5:.2f}", f"{38**0.5:.2f}"]
    assert [row[-1] for row in (one, two, both)] == ["2", "2", "4"]
    assert "Nothing was evaluated" in gaps(of, "table_1")  # another problem than the paper's
    sample_studies.record(tmp_path, "own.test", sample_studies.evaluation({"buffer_size": [100]}, 2), found)
    assert [row[1:4] for row in table(made(tmp_path), "streams")][:1] == [["5", "fixed", "90.00"]]
    assert not [each for each in made(tmp_path, "own.test").sections if each.name == "streams"]


def shown(settings: Mapping[str, Any], **changes: Any) -> str:
    """mean ± std of the made-up accuracies over three seeds, worked out apart."""
    values = [sample_studies.made_up({**settings, **changes}, seed) for seed in range(3)]
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


CO2L = dict(buffer_size=100, distillation="ird", distill_power=1.0, supcon="asymmetric", replay=True, eta=0.01)


def test_the_ablation_has_our_numbers_beside_the_papers(whole: Report) -> None:
    rows = table(whole, "table_2")
    assert [row[1] for row in rows] == [
        "(a) without buffer and IRD",
        "(b) with IRD only",
        "(c) with buffer only",
        "(d) Co²L",
    ]
    assert [row[2] for row in rows] == [
        shown(CO2L, distillation="none", replay=False),
        shown(CO2L, replay=False),
        shown(CO2L, distillation="none"),
        shown(CO2L),
    ]
    assert [row[3] for row in rows] == ["53.25 ± 1.70", "58.89 ± 2.61", "53.57 ± 1.03", "65.57 ± 1.37"]
    assert [row[-1] for row in rows] == ["3"] * 4


def test_small_twins_take_the_papers_buffers_in_order(whole: Report) -> None:
    rows = table(whole, "table_3")
    assert [(row[0], row[3]) for row in rows] == [
        ("50", "60.49 ± 0.72"),
        ("50", "65.57 ± 1.37"),
        ("100", "68.66 ± 0.68"),
        ("100", "74.26 ± 0.77"),
    ]


def test_table_1_has_a_row_per_method_run_or_not(whole: Report) -> None:
    rows = table(whole, "table_1")
    assert len(rows) == 20
    assert [row[2] for row in rows if row[1] == "Co²L"] == [shown(CO2L, buffer_size=50), shown(CO2L)]
    assert {row[2] for row in rows if row[1] != "Co²L"} == {"not run"}
    said = gaps(whole, "table_1")
    assert "DER++" in said
    assert "Nothing was evaluated on Seq-CIFAR-10. python -m co2l.evaluate" in said


def test_a_method_that_the_paper_lacks_has_its_own_row(root: Path) -> None:
    found = read(StudyReader(sample_studies.url(root)), [], root="runs", store="")
    (table_1,) = [each for each in fill(TABLE_1, found.evaluated) if each.benchmark == "seq_digits"]
    plugged = replace(table_1, rows={**table_1.rows, "plugged": table_1.rows["co2l"]})
    shown = paper_tables.paper_table(plugged)
    rows = [(row[0].text, row[1].text, row[2].text) for row in shown.rows]
    own = [row for row in rows if row[1] == "plugged (not in the paper)"]
    assert [(buffer, ours) for buffer, _, ours in own] == [(row[0], row[2]) for row in rows if row[1] == "Co²L"]
    captions = [block.caption for block in paper_figures.matrices([plugged]) if isinstance(block, Figure)]
    assert any(caption.startswith("plugged (not in the paper), buffer ") for caption in captions)


def test_a_method_that_cannot_serve_a_benchmark_is_not_missed_there(tmp_path: Path) -> None:
    sample_studies.record(
        tmp_path,
        "r.test",
        sample_studies.evaluation({"buffer_size": [100]}, benchmark="r_digits"),
        sample_studies.made_up,
    )
    whole = made(tmp_path)
    ours = {row[1]: row[2] for row in table(whole, "table_1")}
    assert ours["iCaRL"] == "–"
    assert ours["ER"] == "not run"
    (said,) = re.findall(r"Not run on `r_digits`: ([^.]*)", gaps(whole, "table_1"))
    assert "ER" in said
    assert "iCaRL" not in said


def test_rotated_benchmarks_are_shown_by_both_rules(tmp_path: Path) -> None:
    """The mean over domains beside the paper's number, and the last domain; the orderings are examined by both."""
    for method, row in {"co2l": [60.0, 70.0, 99.0], "er": [80.0, 80.0, 95.0]}.items():
        space = sample_studies.evaluation({"buffer_size": [100]}, 2, benchmark="r_digits", method=method)
        record = StudyRecord.open(sample_studies.url(tmp_path), f"{method}.test", space)
        for trial in space.trials():
            record.begin(trial)
            measured = {"average": {"domain_il": sum(row) / 3}, "final": {"domain_il": row}, "score": sum(row) / 3}
            record.finish(trial, {**measured, "matrix": {}}, Cost(1, 0, 1.0))
    whole = made(tmp_path)
    (found,) = [block for block in section(whole, "table_1").walk() if isinstance(block, Table)]
    assert [(column.group, column.name) for column in found.columns[2:-1]] == [
        ("Domain-IL", "ours"),
        ("Domain-IL", "paper"),
        ("last domain", "ours"),
    ]
    ours = {row[1]: (row[2], row[4]) for row in table(whole, "table_1")}
    assert ours["Co²L"] == ("76.33 ± 0.00", "99.00 ± 0.00")
    assert ours["ER"] == ("85.00 ± 0.00", "95.00 ± 0.00")
    beats = [row for row in table(whole, "orderings") if row[0].startswith("Co²L beats")]
    assert [(row[2], row[3], row[5]) for row in beats] == [
        ("Domain-IL", "✗ does not hold", "−8.67"),
        ("last domain", "✓ holds", "+4.00"),
    ]


def test_orderings_are_computed(whole: Report) -> None:
    found = {(row[0], row[1], row[2]): row for row in table(whole, "orderings")}
    row = found["IRD beats SEED", "`seq_digits`, buffer 100", "Class-IL"]
    assert row[3:6] == ["✓ holds", "+12.15", "+11.00"]  # 65.57 - 53.42 in the paper, 20 - 9 made up
    assert found["Co²L beats every baseline", "–", "–"][3] == "– not run"


def test_an_ordering_that_is_reversed_is_said_to_be(tmp_path: Path) -> None:
    space = sample_studies.evaluation({"supcon": ["symmetric", "asymmetric"]})
    sample_studies.record(
        tmp_path, "s.test", space, lambda settings, seed: 50.0 + seed + 5 * (settings["supcon"] == "symmetric")
    )
    whole = made(tmp_path)
    (found,) = [
        row for row in table(whole, "orderings") if row[0] == "Asymmetric SupCon helps" and row[2] == "Class-IL"
    ]
    assert found[3] == "✗ does not hold"
    assert found[5] == "−5.00"


def test_figures_stand_in_their_sections(whole: Report) -> None:
    names = {block.name for block in section(whole, "figure_4").walk() if isinstance(block, Figure)}
    assert names == {"figure_4-seq_digits-ird_power-test"}
    drawn = {figure.name.partition("-")[0] for figure in whole.figures()}
    assert drawn == {"table_2", "table_3", "table_6", "figure_4", "matrix", "history", "importance"}


def test_selected_settings_stand_beside_the_papers(whole: Report) -> None:
    rows = {row[0]: row[1:] for row in table(whole, "table_4")}
    assert rows["eta"] == ["0.005, 0.01", "0.01", "0.5", "0.01", "0.5", "0.1, 0.5, 1"]
    assert rows["kappa"][0] == "0.1, 0.2"


def test_methods_without_a_buffer_have_their_rows_too(tmp_path: Path) -> None:
    for name, reached in {"finetune": 20.0, "joint": 95.0}.items():
        searched = sample_studies.search(axes={"eta": [0.1]}, method=name, selection={})
        sample_studies.record(tmp_path, name, searched, lambda *_, reached=reached: reached)
        tested = sample_studies.evaluation({"eta": [0.1]}, method=name)
        sample_studies.record(tmp_path, f"{name}.test", tested, lambda *_, reached=reached: reached)
    whole = made(tmp_path)
    assert [row[0] for row in table(whole, "table_4")] == ["eta", "validation score (%)"]
    assert not gaps(whole, "table_4")
    captions = {block.caption for block in section(whole, "matrices").walk() if isinstance(block, Figure)}
    named = "Finetune (lower bound)", "Joint (upper bound)"
    assert captions == {f"{name}, `seq_digits`: by the fast probe, mean over 3 seeds." for name in named}
    for name, reached in zip(named, ("20.00", "95.00"), strict=True):
        (row,) = [row for row in table(whole, "table_1") if name in row]
        assert any(item.startswith(reached) for item in row)


def test_the_price_is_added_up(whole: Report) -> None:
    rows = {row[0]: row[1:] for row in table(whole, "cost")}
    assert rows["`seq_digits`"] == ["search", "8", "160", "320", "67%", "0.01"]  # 8 trials of 20 + 40 epochs and 3 s
    trials = 8 + 3 * (2 + 4 + 4 + 4 + 6)
    assert rows["all"][1:3] == [str(trials), f"{20 * trials:,}"]


def test_a_study_brings_its_evaluation(root: Path) -> None:
    whole = made(root, "seq_digits")
    assert {row[0] for row in table(whole, "overview", 1)} == {"`seq_digits`", "`seq_digits.test`"}
    assert "No evaluation has two rows of Table 2" in gaps(whole, "table_2")
    with pytest.raises(Co2lError, match="unknown study 'seq_digts'"):
        made(root, "seq_digts")


def test_a_study_that_is_not_finished_says_so(tmp_path: Path) -> None:
    space = sample_studies.search()
    sample_studies.record(tmp_path, "s", space, sample_studies.made_up, list(space.trials())[:1])
    whole = made(tmp_path)
    assert "Study `s` is unfinished: 7 of its trials are left" in gaps(whole, "table_4")
    assert "--study s" in gaps(whole, "table_4")


def test_a_study_without_a_selection_says_so(tmp_path: Path) -> None:
    space = sample_studies.search(axes={"eta": [0.01]}, selection={}, retries=0)
    record = StudyRecord.open(sample_studies.url(tmp_path), "s", space)
    (trial,) = space.trials()
    record.begin(trial)
    record.fail(trial, "it broke", Cost())
    whole = made(tmp_path)
    assert "Study `s` has no selection" in gaps(whole, "table_4")
    assert "no history" in gaps(whole, "searches")


def test_benchmarks_are_kept_apart(tmp_path: Path) -> None:
    axes = {"supcon": ["symmetric", "asymmetric"]}
    for benchmark in ("seq_digits", "seq_cifar10"):
        space = sample_studies.evaluation(axes, benchmark=benchmark, settings={"buffer_size": 200})
        sample_studies.record(tmp_path, f"{benchmark}.test", space, lambda _, seed: 60.0 + seed)
    whole = made(tmp_path)
    captions = [block.caption for block in section(whole, "table_3").walk() if isinstance(block, Table)]
    told = "accuracy after the last task in percent"
    assert captions == [f"Table 3 on Seq-CIFAR-10: {told}", f"Table 3 on `seq_digits`: {told}"]
    symmetric, asymmetric = table(whole, "table_3")
    assert symmetric[:5] == ["200", "original (L^sup)", "61.00 ± 1.00", "60.49 ± 0.72", "+0.51"]
    assert asymmetric[4] == "−4.57"


def test_an_empty_study_leaves_gaps_everywhere(tmp_path: Path) -> None:
    StudyRecord.open(sample_studies.url(tmp_path), "s", sample_studies.search())
    whole = made(tmp_path)
    for name in ("table_1", "table_2", "table_3", "table_4", "table_6", "figure_3", "figure_4", "figure_5", "matrices"):
        assert gaps(whole, name), name
    assert whole.figures() == []


def test_a_section_that_breaks_is_a_gap(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no pens left")

    monkeypatch.setattr(paper_figures, "figure_4", broken)
    whole = made(root, "seq_digits")
    assert gaps(whole, "figure_4").startswith("This section failed (RuntimeError: no pens left).")
    assert table(whole, "table_1")


@pytest.mark.parametrize("benchmark", ["seq_cifar10", "seq_tiny_imagenet", "r_mnist", "seq_digits", "r_digits"])
def test_the_space_of_a_missing_baseline_is_there(benchmark: str, tmp_path: Path) -> None:
    space = sample_studies.evaluation({"buffer_size": [200]}, benchmark=benchmark)
    sample_studies.record(tmp_path, "r.test", space, lambda *_: 60.0)
    (file,) = re.findall(r"--space (\S+/er\.yaml)", gaps(made(tmp_path), "table_1"))
    shipped = load(Path(__file__).parents[2] / file)
    assert (shipped.benchmark, shipped.method) == (benchmark, "er")


@pytest.mark.parametrize("benchmark", ["seq_cifar10", "seq_tiny_imagenet", "r_mnist", "seq_digits", "r_digits"])
def test_the_spaces_that_fill_gaps_are_there(benchmark: str, tmp_path: Path) -> None:
    """A baseline alone was evaluated: everything else is a gap."""
    shipped = Path(__file__).parents[2]
    for experiment in EXPERIMENTS:
        assert (shipped / experiment.file(benchmark)).is_file(), experiment.file(benchmark)
    sample_studies.record(
        tmp_path, "r.test", sample_studies.evaluation({"eta": [0.1]}, benchmark=benchmark, method="er"), lambda *_: 60.0
    )
    whole = made(tmp_path)
    for item in (*(experiment.item for experiment in EXPERIMENTS), "figure_5"):
        named = re.findall(r"--space (\S+\.yaml)", gaps(whole, item))
        assert named
        assert all((shipped / file).is_file() for file in named), named
    assert TABLE_1.file(benchmark) in gaps(whole, "figure_5")
