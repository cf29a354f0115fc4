"""The paper's numbers: sums and spot values typed from its LaTeX source."""

from __future__ import annotations

from typing import Any

import pytest

from co2l.reporting.paper import Printed, paper

SUMS = {  # numbers in the table, sum of the means, sum of the standard deviations: added up from the LaTeX source
    "table_1": (86, 5145.23, 127.18),
    "table_2": (4, 231.28, 6.71),
    "table_3": (8, 336.17, 5.46),
    "table_6": (32, 1610.56, 32.79),
}
SPOTS = [
    ("table_1", 200, "er", "seq_cifar10", "class_il", 44.79, 1.86),
    ("table_1", 200, "icarl", "seq_tiny_imagenet", "task_il", 28.19, 1.47),
    ("table_1", 500, "hal", "r_mnist", "domain_il", 92.35, 0.81),
    ("table_1", 500, "co2l", "seq_tiny_imagenet", "class_il", 20.12, 0.42),
    ("table_1", 500, "derpp", "seq_cifar10", "task_il", 93.88, 0.50),
    ("table_2", 200, "b", "seq_cifar10", "class_il", 58.89, 2.61),
    ("table_3", 500, "symmetric", "seq_tiny_imagenet", "class_il", 19.68, 0.62),
    ("table_6", 200, "mse_projection", "seq_tiny_imagenet", "task_il", 34.38, 0.66),
    ("table_6", 500, "seed", "seq_cifar10", "class_il", 61.65, 3.24),
]


def pairs(tree: Any) -> list[list[float]]:
    if isinstance(tree, list):
        return [tree]
    return [pair for part in tree.values() for pair in pairs(part)]


@pytest.mark.parametrize("table", SUMS)
def test_no_number_is_missing_or_misread(table: str) -> None:
    found = pairs(paper().items[table].content["values"])
    n, means, stds = SUMS[table]
    assert len(found) == n
    assert sum(mean for mean, _ in found) == pytest.approx(means, abs=1e-6)
    assert sum(std for _, std in found) == pytest.approx(stds, abs=1e-6)


@pytest.mark.parametrize(("table", "buffer", "row", "benchmark", "scenario", "mean", "std"), SPOTS)
def test_numbers_stand_in_their_row(
    table: str, buffer: int, row: str, benchmark: str, scenario: str, mean: float, std: float
) -> None:
    assert paper().items[table].value(buffer, row, benchmark, scenario) == Printed(mean, std)


def test_co2l_is_the_same_in_all_tables() -> None:
    items = paper().items
    for table, row in (("table_2", "d"), ("table_3", "asymmetric"), ("table_6", "ird")):
        printed = items[table]
        for buffer in printed.buffers:
            for benchmark, scenarios in printed.content["values"][buffer][row].items():
                for scenario in scenarios:
                    expected = items["table_1"].value(buffer, "co2l", benchmark, scenario)
                    assert printed.value(buffer, row, benchmark, scenario) == expected


def test_what_the_paper_leaves_out_is_none() -> None:
    table = paper().items["table_1"]
    assert table.value(200, "gem", "seq_tiny_imagenet", "class_il") is None
    assert table.value(200, "icarl", "r_mnist", "domain_il") is None
    assert table.value(300, "er", "r_mnist", "domain_il") is None


def test_the_chosen_settings_are_on_the_grid() -> None:
    for benchmark in paper().benchmarks:
        for buffer in (200, 500):
            chosen = paper().chosen(benchmark, "co2l", buffer)
            assert chosen.keys() == {"eta", "tau", "kappa", "kappa_star", "E_t"}
            for name, value in chosen.items():
                assert value in paper().tried(benchmark)[name]
    assert paper().chosen("r_mnist", "derpp", 500) == {"eta": 0.2, "alpha": 1.0, "beta": 1.0}
    assert paper().chosen("seq_digits", "co2l", 200) == {}
