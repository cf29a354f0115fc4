"""The example plug-in's methods follow their papers: each step against the formula, computed in plain loops."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from formulas import ALL, assert_same, descend, next_step, take_step
from small_runs import begun, plain
from torch import Tensor
from torch.nn import functional as F

from co2l.learning.methods import METHODS

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "plugin"


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from co2l_example.er_ace import ERACE
    from co2l_example.scr import SCR

    monkeypatch.setitem(METHODS, "er_ace", ERACE)
    monkeypatch.setitem(METHODS, "scr", SCR)


def cross_entropy_among(logits: Tensor, labels: Tensor, classes: set[int]) -> Tensor:
    """Softmax over some classes, by its definition, in double precision."""
    total = torch.zeros((), dtype=torch.float64)
    for row, label in zip(logits.double(), labels.tolist(), strict=True):
        total = total + sum(row[c].exp() for c in classes).log() - row[label]
    return total / len(labels)


@pytest.mark.parametrize(("tasks", "seen"), [(1, {0, 1}), (2, {0, 1, 2, 3}), (3, {0, 1, 2, 3, 4, 5})])
def test_er_ace_sets_new_classes_against_each_other_and_old_ones_against_all(tasks: int, seen: set[int]) -> None:
    learner = begun("er_ace", steps=2, tasks=tasks, minibatch_size=ALL, batch_size=4, double=True)
    x, labels, network = next_step(learner)
    past = learner.memory
    assert set(past.labels.tolist()) <= seen  # the buffer may have dropped one since
    now = cross_entropy_among(network(x), labels, set(labels.tolist()))
    replayed = cross_entropy_among(network(plain(past)), past.labels, seen)
    losses = take_step(learner)
    assert float(losses["ce"]) == pytest.approx(float(now.detach()), abs=1e-5)
    assert float(losses["replay"]) == pytest.approx(float(replayed.detach()), abs=1e-5)
    descend(network, now + replayed)
    assert_same(learner.network, network)


def test_er_ace_leaves_the_logits_of_absent_classes_alone() -> None:
    """The point of the method: before anything is replayed, a new task does not move the old classes' weights."""
    learner = begun("er_ace", steps=0, tasks=2, minibatch_size=1)
    learner.memory = learner.memory.gather(torch.zeros(0, dtype=torch.int64))
    _, labels, network = next_step(learner)
    take_step(learner)
    moved = (learner.network.head.weight != network.head.weight).any(1).nonzero().flatten().tolist()
    assert set(moved) <= set(labels.tolist()) <= {2, 3}


def test_scr_contrasts_images_and_their_views_by_class() -> None:
    learner = begun("scr", steps=2, tasks=2, minibatch_size=ALL, batch_size=4, tau=0.5)
    x, labels, network = next_step(learner)
    past = learner.memory
    images = torch.cat([x, plain(past)]).repeat(2, 1, 1, 1)  # a view without augmentation is the image again
    classes = torch.cat([labels, past.labels]).repeat(2).tolist()
    z = F.normalize(network(images)).double().tolist()
    n, total = len(z), 0.0
    for i in range(n):
        others = [k for k in range(n) if k != i]
        score = {k: sum(a * b for a, b in zip(z[i], z[k], strict=True)) / 0.5 for k in others}
        bottom = math.log(sum(math.exp(value) for value in score.values()))
        positives = [k for k in others if classes[k] == classes[i]]
        total -= sum(score[k] - bottom for k in positives) / len(positives)
    assert float(take_step(learner)["supcon"]) == pytest.approx(total / n * (0.5 / 0.07), rel=1e-4)


def test_scr_answers_with_the_class_whose_mean_in_the_buffer_is_nearest() -> None:
    learner = begun("scr", steps=2, tasks=1)
    classifier = learner.classifier(0, learner.D, "own")
    with torch.no_grad():
        features = F.normalize(learner.network.encoder(plain(learner.memory)))
        means = {c: F.normalize(features[learner.memory.labels == c].mean(0), dim=0) for c in (0, 1)}
        images = plain(learner.D)
        nearest = [
            min(means, key=lambda c, h=h: float((h - means[c]).norm()))  # type: ignore[misc]
            for h in F.normalize(learner.network.encoder(images))
        ]
        assert classifier(images).argmax(1).tolist() == nearest
