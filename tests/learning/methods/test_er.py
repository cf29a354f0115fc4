"""The steps of ER, and of finetune and joint, which replay nothing, against their formulas."""

from __future__ import annotations

import pytest
import torch
from formulas import ALL, assert_same, cross_entropy, descend, next_step, take_step
from small_runs import begun, plain


def test_er() -> None:
    learner = begun("er", double=True, steps=2, tasks=2, minibatch_size=ALL)
    x, y, network = next_step(learner)
    memory = learner.memory
    losses = take_step(learner)
    expected = cross_entropy(network(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels]))
    torch.testing.assert_close(losses["ce"], expected.detach())
    descend(network, expected)
    assert_same(learner.network, network)


@pytest.mark.parametrize("name", ["finetune", "joint"])
def test_without_replay(name: str) -> None:
    learner = begun(name, double=True, steps=2, tasks=2)
    x, y, network = next_step(learner)
    take_step(learner)
    descend(network, cross_entropy(network(x), y))
    assert_same(learner.network, network)
