"""Batched gradients are those computed one by one."""

from __future__ import annotations

import copy

import pytest
import torch
from formulas import loop_gradients
from small_runs import begun, plain
from torch import nn
from torch.nn import functional as F

from co2l.learning.encoders import build_encoder
from co2l.learning.gradients import ExampleGradients, gradient, group_gradients


@pytest.mark.parametrize(("encoder", "shape"), [("digits_conv", (1, 8, 8)), ("resnet18", (3, 8, 8))])
def test_example_gradients(encoder: str, shape: tuple[int, int, int]) -> None:
    """Inner products and lengths are those of gradients taken one by one; the network is left as it was."""
    torch.manual_seed(0)
    network = nn.Sequential(build_encoder(encoder, shape, 4), nn.LazyLinear(6), nn.ReLU(), nn.LazyLinear(3, bias=False))
    x, labels = torch.rand(9, *shape), torch.arange(9) % 3
    network(x)  # BatchNorm's statistics are no longer those of the start
    before = copy.deepcopy(network.state_dict())
    some, others = (ExampleGradients.of(network, x[part], labels[part]) for part in (slice(4), slice(4, None)))
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    expected = loop_gradients(network.eval(), x, labels)
    torch.testing.assert_close(some.products(others).double(), expected[:4] @ expected[4:].T, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(others.norms.double(), expected[4:].square().sum(1).sqrt(), atol=1e-5, rtol=1e-4)


def test_batched_gradients_are_those_of_one_group_at_a_time() -> None:
    learner = begun("gem", steps=1, tasks=3, buffer_size=18)  # 3 examples of each of 5 tasks, 2 of them past
    memory, network = learner.memory, learner.network
    batched = learner.past_gradients(torch.Generator())
    x = plain(memory)
    assert memory.tasks.bincount().tolist() == [3, 3]
    for t in (0, 1):
        own = memory.tasks == t
        alone = gradient(network, F.cross_entropy(network(x[own]), memory.labels[own]))
        torch.testing.assert_close(batched[t], alone, atol=1e-6, rtol=1e-4)


def test_padding_does_not_count() -> None:
    learner = begun("gem", steps=1, tasks=2)
    x, labels = plain(learner.memory)[:3], learner.memory.labels[:3]
    weights = torch.tensor([[1.0, 1.0, 0.0]])
    padded = group_gradients(learner.network, x[None], labels[None], weights)[0]
    alone = gradient(learner.network, F.cross_entropy(learner.network(x[:2]), labels[:2]))
    torch.testing.assert_close(padded, alone, atol=1e-6, rtol=1e-4)
