"""HAL's step and its anchors against the formulas of the paper."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from formulas import ALL, assert_same, cross_entropy, descend, next_step, take_step
from small_runs import begun, few_digits, plain
from torch import Tensor

from co2l.learning.methods.hal import ANCHOR_STEPS


def test_hal_step() -> None:
    learner = begun("hal", steps=1, tasks=2, minibatch_size=ALL, hal_lambda=0.6, beta=0.3)
    x, y, network = next_step(learner)
    memory, phi, anchors = learner.memory, learner.phi, learner.anchors
    losses = take_step(learner)
    ce = cross_entropy(network(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels]))
    ahead = copy.deepcopy(network)
    descend(ahead, cross_entropy(ahead(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels])))
    moved = ((network(anchors) - ahead(anchors).detach()).double() ** 2).mean()
    assert losses["anchors"].item() == pytest.approx(moved.item(), rel=1e-3, abs=1e-9)
    descend(network, ce + 0.6 * moved)
    assert_same(learner.network, network)
    torch.testing.assert_close(learner.phi, 0.3 * phi + 0.7 * network.encoder(x).mean(0), atol=1e-5, rtol=1e-4)


def test_hal_anchors() -> None:
    """One point per class, each by its own gradient descent, from the same beginning."""
    learner = begun("hal", steps=3, gamma=0.2, buffer_size=25)
    task = few_digits().train(0)
    network, memory, phi = copy.deepcopy(learner.network), learner.memory, learner.phi
    assert len(learner.anchors) == 0
    learner.end_task(0, task)
    assert learner.anchors.shape == (2, 1, 8, 8)
    tuned, lr = copy.deepcopy(network), learner.settings.eta
    loss = cross_entropy(tuned(plain(memory)), memory.labels)
    with torch.no_grad():
        for p, g in zip(tuned.parameters(), torch.autograd.grad(loss, list(tuned.parameters())), strict=True):
            p -= lr * g
    for label in (0, 1):
        # invert nothing: descend from the start that the method drew, found by running 0 of its steps
        e = start_of(learner, label)
        for _ in range(ANCHOR_STEPS):
            e = e.detach().requires_grad_(True)
            target = torch.tensor([label])
            objective = cross_entropy(network(e), target) - cross_entropy(tuned(e), target)
            objective = objective + 0.2 * ((network.encoder(e)[0] - phi) ** 2).sum()
            e = e - lr * torch.autograd.grad(objective, e)[0]
        torch.testing.assert_close(learner.anchors[label], e[0].detach(), atol=1e-4, rtol=1e-3)


def start_of(learner: Any, label: int) -> Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("co2l.learning.methods.hal.ANCHOR_STEPS", 0)
        other = begun("hal", steps=3, gamma=0.2, buffer_size=25)
        other.end_task(0, few_digits().train(0))
    assert other.anchors.shape == learner.anchors.shape
    start: Tensor = other.anchors[label : label + 1]
    return start
