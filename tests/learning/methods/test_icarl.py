"""iCaRL's targets, step and nearest-mean answers against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from formulas import assert_same, descend, next_step, take_step
from small_runs import begun, few_digits, plain

from co2l.learning.methods.icarl import distilled_targets


def test_icarl_targets() -> None:
    old = torch.tensor([[0.0, 2.0, 9.0], [-1.0, 0.0, 9.0]])
    found = distilled_targets(torch.tensor([2, 0]), old, before=2, seen=3)
    s = [1 / (1 + np.exp(-v)) for v in (0.0, 2.0, -1.0, 0.0)]
    np.testing.assert_allclose(found, [[s[0], s[1], 1], [s[2], s[3], 0]], rtol=1e-6)
    assert distilled_targets(torch.tensor([1, 0]), None, before=0, seen=2).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("released", [False, True], ids=["SGD's decay", "released decay"])
def test_icarl_step(released: bool) -> None:
    """The release adds wd·‖θ‖² to the loss, which SGD's weight decay does at twice the value."""
    wd = 0.01
    learner = begun("icarl", double=True, steps=1, tasks=2, weight_decay=2 * wd if released else wd)
    x, y, network = next_step(learner)
    losses = take_step(learner)
    p = 1 / (1 + (-network(x)[:, :4].double()).exp())
    targets = torch.zeros(len(x), 4, dtype=torch.float64)
    for row, label in enumerate(y.tolist()):
        targets[row, label] = 1
    targets[:, :2] = 1 / (1 + (-learner.old(x)[:, :2].double()).exp())
    loss = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()
    assert losses["bce"].item() == pytest.approx(loss.item(), rel=1e-12)
    squares = torch.stack([(p**2).sum() for p in network.parameters()]).sum()
    descend(network, loss + (wd * squares if released else wd * squares / 2))
    assert_same(learner.network, network)


def test_icarl_answers_with_the_nearest_mean_of_exemplars() -> None:
    learner = begun("icarl", double=True, steps=3, tasks=2, buffer_size=22)
    task = few_digits().train(1)
    classify = learner.classifier(1, task, "own")
    learner.end_task(1, task)  # keeps the exemplars that the classifier goes by
    memory = learner.memory
    assert memory.labels.bincount().tolist() == [5, 5, 5, 5]
    with torch.no_grad():
        logits = classify(plain(task))
        features = [f / f.norm() for f in learner.network.encoder(plain(memory))]
        for x, row in zip(plain(task), logits, strict=True):
            f = learner.network.encoder(x[None])[0]
            distances = []
            for label in range(4):
                own = torch.stack([g for g, y in zip(features, memory.labels, strict=True) if y == label]).mean(0)
                distances.append(float((f / f.norm() - own / own.norm()).norm()))
            np.testing.assert_allclose(-row[:4], distances, atol=1e-4)
    assert (logits[:, 4:] == -torch.inf).all()
