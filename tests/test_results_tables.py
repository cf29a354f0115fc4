"""The tables of results in the documents are what docs/build_results.py makes of docs/results.json."""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sample_protocols import result as result_of
from spaces import result

from co2l.learning.results import Chosen
from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.space.evaluation import of_configurations
from co2l.search.space.space import load

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_results", DOCS / "build_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DOCS / "results.json").read_text(encoding="utf-8"))
    return document


def test_the_committed_tables_are_up_to_date(builder: ModuleType, document: dict[str, Any]) -> None:
    for path, text in builder.pages(document).items():
        assert text == path.read_text(encoding="utf-8"), "run: python docs/build_results.py"
    assert builder.dumped(document) == (DOCS / "results.json").read_text(encoding="utf-8")


def test_every_number_is_shown_and_names_its_command(document: dict[str, Any]) -> None:
    shown = re.findall(r"\{([^{}:\"]+):\w", json.dumps(document["tables"], ensure_ascii=False))
    assert {each for name in shown for each in name.split(" > ")} == document["numbers"].keys()
    assert {number["command"] for number in document["numbers"].values()} == document["commands"].keys()


T_975 = {1: 12.706, 2: 4.303, 4: 2.776}  # from a table, by degrees of freedom
SEEDS = {"0": 1, "1": 1, "0, 1": 2, "0 to 4": 5, "0 to 9": 10, "1 to 3": 3}


def test_every_number_is_listed_with_command_scale_seeds_and_interval(document: dict[str, Any]) -> None:
    page = (DOCS / "numbers.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    listed: set[str] = set()
    for name, text in sections.items():
        _, command, _, scale, _, *rows = text.splitlines()
        how = document["commands"][name]
        assert (command, scale) == (f"`{how['command']}`", f"{how['scale']}.")
        for row in rows[2:]:
            if not row.startswith("|"):
                break
            label, _, value, interval, n, seeds = (item.strip() for item in row.strip("|").split("|"))
            listed.add(label)
            assert document["numbers"][label]["command"] == name
            assert int(n) == SEEDS[seeds]
            if "±" in value:
                mean, deviation = map(float, value.split(" ± "))
                half = T_975[int(n) - 1] * deviation / int(n) ** 0.5
                ends = [float(end) for end in interval.split(" to ")]
                assert ends == pytest.approx([max(mean - half, 0), min(mean + half, 100)], abs=0.1)
            else:
                assert interval == "–", "one seed, or a count"
    assert listed == document["numbers"].keys()


def test_means_are_those_of_the_seeds(document: dict[str, Any]) -> None:
    for label, number in document["numbers"].items():
        for quantity, values in number.get("by_seed", {}).items():
            of_seeds = list(values.values())
            assert number["n"] == len(of_seeds), label
            assert number[quantity][0] == pytest.approx(statistics.fmean(of_seeds), abs=0.011), label
            deviation = [statistics.stdev(of_seeds)] if len(of_seeds) > 1 else []
            assert number[quantity][1:] == pytest.approx(deviation, abs=0.011), label


PAPERS = {65.57, 93.43, 97.9, 98.65}  # of Table 1


def test_accuracies_in_prose_are_recorded_ones(document: dict[str, Any]) -> None:
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    text = re.sub(r"<!-- results: .*?<!-- /results -->|^```.*?^```|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    recorded = PAPERS | {float(figure) for figure in re.findall(r"\d+\.\d+", json.dumps(document["numbers"]))}
    assert {float(figure) for figure in re.findall(r"(?<![\d.])\d\d\.\d\d(?![\d.])", text)} <= recorded


def test_the_first_results_are_those_of_the_commands_beside_them(document: dict[str, Any]) -> None:
    """The README says `tune`, then `evaluate --study seq_digits`: its numbers come from that study's record."""
    rows = document["tables"]["readme"]["rows"]
    for size in (50, 100):
        name = f"seq_digits/co2l/{size}"
        (row,) = [row for row in rows if row[0] == f"Seq-Digits, {size}"]
        assert row[3] == f"{{{name}:class_il}} / {{{name}:task_il}}"
        assert document["numbers"][name]["record"]["study"] == "seq_digits.test"


def test_numbers_are_read_from_a_record_as_the_command_prints_them(builder: ModuleType, tmp_path: Path) -> None:
    chosen = [Chosen(benchmark="seq_digits", settings={"buffer_size": 50}, group={"buffer_size": 50})]
    space = of_configurations(chosen, 2, "test")
    record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s.test", space)
    for trial, score in zip(space.trials(), (80.0, 83.0), strict=True):
        record.begin(trial)
        record.finish(trial, result(score), Cost())
    numbers = {"a": {"n": 0, "record": {"study": "s.test", "configuration": "buffer_size=50"}}, "b": {"n": 1}}
    assert builder.recorded({"numbers": numbers}, tmp_path) == 1
    assert numbers["a"]["class_il"] == [80.5, 2.12]  # 79 and 82; 3 / √2
    assert numbers["a"]["by_seed"]["class_il"] == {"0": 79.0, "1": 82.0}
    assert builder.filled("{a:task_il} of {a:n}, {a:task_il.mean}", numbers) == "82.50 ± 2.12 of 2, 82.50"


def test_the_page_on_protocols_shows_their_results(builder: ModuleType, tmp_path: Path) -> None:
    table = {"file": "docs/selection-protocols.md", "command": "co2l protocols", "benchmark": "seq_digits"}
    assert builder.protocols(table, {"protocols": {}}) == "Not measured yet: `co2l protocols`\n"
    two = [result_of("er", "end", 80.0), result_of("er", "greedy 1", 82.0), result_of("er", "end", 1.0, benchmark="b")]
    plain = {str(i): json.loads(json.dumps(each.as_dict())) for i, each in enumerate(two)}
    text = builder.protocols(table, {"protocols": plain}, tmp_path)
    assert "| `greedy 1` | er | 1 | **82.00**" in text
    assert "1.00" not in text
    (image,) = re.findall(r"\]\((.*\.png)\)", text)
    assert (tmp_path / image).read_bytes().startswith(b"\x89PNG")


def test_what_is_said_of_the_first_task_is_what_the_recorded_grid_shows() -> None:
    recorded = json.loads((DOCS.parent / "benchmarks/recorded/seq_digits.json").read_text(encoding="utf-8"))
    space = load(DOCS.parent / "benchmarks/recorded/seq_digits.yaml")
    by_stage: dict[str, list[float]] = {}
    for trial, scores in zip(space.trials(), recorded["scores"], strict=True):
        by_stage.setdefault(trial.config.stage_key(0), []).append(scores[0])
    assert all(len(set(scores)) == 1 for scores in by_stage.values()), "trials share what task 1 does not tell apart"
    best = [scores for scores in by_stage.values() if scores[0] == 100.0]
    last = [scores[-1] for scores in recorded["scores"]]
    said = (DOCS / "selection-protocols.md").read_text(encoding="utf-8").replace("\n", " ")
    assert f"{len(recorded['scores'])} trials, and their validation scores" in said
    (of_each,) = {len(scores) for scores in by_stage.values()}
    assert f"share {len(by_stage)} first stages, {of_each} trials each" in said
    assert f"{len(best)} of the {len(by_stage)} reach 100%" in said
    assert f"{sum(map(len, best))} of the {len(last)} trials tie" in said
    assert f"between {min(last):.1f}% and {max(last):.1f}%" in said


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        # by hand: differences 1, 2, 3; mean 2, deviation 1, t(2 degrees, 97.5%) = 4.303
        ([11.0, 12.0, 13.0], [10.0, 10.0, 10.0], "not distinguishable: +2.00 (-0.48 to +4.48), n = 3"),
        ([13.0, 14.0, 14.0], [10.0, 10.0, 10.0], "appears: +3.67 (+2.23 to +5.10), n = 3"),
        ([10.0, 10.0, 10.0], [13.0, 14.0, 14.0], "does not appear: reversed: -3.67 (-5.10 to -2.23), n = 3"),
        ([11.0], [10.0, 9.0], "one pair: +1.00"),
        ([], [10.0], "not run"),
    ],
)
def test_an_ordering_is_judged_by_its_paired_difference(
    builder: ModuleType, one: list[float], other: list[float], said: str
) -> None:
    by_seed = [{"by_seed": {"class_il": {str(i): value for i, value in enumerate(each)}}} for each in (one, other)]
    assert builder.filled("{a > b:class_il}", dict(zip("ab", by_seed, strict=True))) == said
