"""Accuracies against a loop over single images, and the summaries against an example worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from co2l.data.benchmarks import standardise
from co2l.data.root import data_root
from co2l.data.streams import Split, open_stream
from co2l.learning import metrics

MATRIX = [[90.0], [70.0, 95.0], [80.0, 60.0, 99.0]]


def test_forgetting_is_from_the_best_before_the_last_task() -> None:
    assert metrics.forgetting(MATRIX) == pytest.approx(((90 - 80) + (95 - 60)) / 2)


def test_backward_transfer_is_from_the_time_of_learning() -> None:
    assert metrics.backward_transfer([[70.0], [90.0, 95.0], [80.0, 60.0, 99.0]]) == pytest.approx((10 - 35) / 2)


def test_one_task_forgets_nothing() -> None:
    assert metrics.forgetting([[50.0]]) == metrics.backward_transfer([[50.0]]) == 0


def test_score_averages_the_scenarios() -> None:
    assert metrics.score({"class_il": [50.0, 70.0], "task_il": [90.0, 100.0]}) == pytest.approx((60 + 95) / 2)
    assert metrics.score({"domain_il": [50.0, 70.0]}) == pytest.approx(60)


def test_rotated_benchmarks_have_two_rules() -> None:
    """The mean over all domains, and the domain learned last, which is all that the released loader tests."""
    row = {"domain_il": [50.0, 70.0, 99.0]}
    assert metrics.averages(row, "test") == {
        "test/domain_il": pytest.approx(73),
        "test/last_domain": 99.0,
        "test/score": pytest.approx(73),
    }
    assert metrics.reported({"average": {"domain_il": 73.0}, "final": row}) == {"domain_il": 73.0, "last_domain": 99.0}
    assert "test/last_domain" not in metrics.averages({"class_il": [1.0], "task_il": [2.0]}, "test")


@pytest.mark.parametrize("name", ["seq_digits", "r_digits"])
def test_accuracies_equal_a_loop_over_single_images(name: str) -> None:
    tasks = open_stream(name, split=Split("search"), seed=0, data=data_root())
    weights = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))

    def classify(images: Tensor) -> Tensor:
        return images.flatten(1) @ weights

    row = metrics.accuracies(classify, tasks, range(3), torch.device("cpu"))
    for t in range(3):
        examples, own = tasks.held_out(t), tasks.classes(t)
        anywhere = within = 0
        for i in range(len(examples)):
            image = standardise(examples.images[i : i + 1], tasks.benchmark)
            logits = classify(image)[0].tolist()
            label = int(examples.labels[i])
            anywhere += max(range(10), key=lambda c: logits[c]) == label
            within += max(own, key=lambda c: logits[c]) == label
        if name == "seq_digits":
            assert row["class_il"][t] == pytest.approx(100 * anywhere / len(examples))
            assert row["task_il"][t] == pytest.approx(100 * within / len(examples))
        else:
            assert list(row) == ["domain_il"]
            assert row["domain_il"][t] == pytest.approx(100 * anywhere / len(examples))
