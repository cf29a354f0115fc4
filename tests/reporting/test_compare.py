"""Which configurations `--compare` means, and what it says of them."""

from __future__ import annotations

import pytest
import sample_studies

from co2l.errors import Co2lError
from co2l.reporting.compare import compare, find, lines
from co2l.search.record.reader import StudyReader


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> StudyReader:
    root = tmp_path_factory.mktemp("runs")
    sample_studies.record(root, "s", sample_studies.search(), sample_studies.made_up)
    axes = {"distillation": ["ird", "none"]}
    sample_studies.record(root, "ablation.test", sample_studies.evaluation(axes), sample_studies.made_up)
    cifar = sample_studies.evaluation({"eta": [0.5]}, seeds=1, benchmark="seq_cifar10")
    sample_studies.record(root, "cifar.test", cifar, lambda *_: 60.0)
    return StudyReader(sample_studies.url(root))


def test_two_configurations_of_one_evaluation(reader: StudyReader) -> None:
    names = "ablation:distillation=ird", "ablation.test:distillation=none"
    found = compare(find(reader, names[0]), find(reader, names[1]))
    assert [each.scenario for each in found] == ["class_il", "task_il"]
    assert found[0].test.difference.mean == pytest.approx(20.0)
    assert found[0].test.seeds == (0, 1, 2)
    assert found[0].test.p_flip == 0.25  # of eight flips, two are as far
    said = lines(names, found)
    assert "  A − B over 3 common seeds: +20.00 [20.00, 20.00] percentage points" in said
    assert said[-1].startswith("few seeds (3")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("ablation", "2 configurations match; write NAME:key=value,… with distillation=ird or none"),
        ("ablation:distillation=seed", "no finished configuration matches"),
        ("ablation:distilation=ird", "'distilation' is not a setting"),
        ("s", "'s' is a search, which has no test results; evaluate it first"),
        ("ablatio", "unknown study 'ablatio'"),
    ],
)
def test_what_is_not_one_configuration_is_said(reader: StudyReader, wanted: str, message: str) -> None:
    with pytest.raises(Co2lError) as error:
        find(reader, wanted)
    assert message in str(error.value)


def test_benchmarks_are_not_compared(reader: StudyReader) -> None:
    with pytest.raises(Co2lError, match="one is on seq_cifar10, the other on seq_digits"):
        compare(find(reader, "cifar"), find(reader, "ablation:distillation=ird"))
