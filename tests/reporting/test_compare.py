"""Which configurations `--compare` means, and what it says of them."""

from __future__ import annotations

import archives
import pytest

from co2l.errors import Co2lError
from co2l.reporting.compare import compare, find, lines
from co2l.search.archive import Archive


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    root = tmp_path_factory.mktemp("runs")
    archives.record(root, "s", archives.search(), archives.made_up)
    axes = {"distillation": ["ird", "none"]}
    archives.record(root, "ablation.test", archives.evaluation(axes), archives.made_up)
    cifar = archives.evaluation({"eta": [0.5]}, seeds=1, benchmark="seq_cifar10")
    archives.record(root, "cifar.test", cifar, lambda *_: 60.0)
    return Archive(archives.url(root))


def test_two_configurations_of_one_evaluation(archive: Archive) -> None:
    names = "ablation:distillation=ird", "ablation.test:distillation=none"
    found = compare(find(archive, names[0]), find(archive, names[1]))
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
def test_what_is_not_one_configuration_is_said(archive: Archive, wanted: str, message: str) -> None:
    with pytest.raises(Co2lError) as error:
        find(archive, wanted)
    assert message in str(error.value)


def test_benchmarks_are_not_compared(archive: Archive) -> None:
    with pytest.raises(Co2lError, match="one is on seq_cifar10, the other on seq_digits"):
        compare(find(archive, "cifar"), find(archive, "ablation:distillation=ird"))
