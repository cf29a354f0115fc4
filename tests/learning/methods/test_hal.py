"""HAL's step and its anchors against the formulas of the paper."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from formulas import ALL, assert_same, cross_entropy, descend, next_step, take_step
from small_runs import CPU, begun, few_digits, in_float64, plain, short
from torch import Tensor

from co2l.data.benchmarks import benchmark, standardise
from co2l.data.examples import Examples
from co2l.learning.methods.hal import ANCHOR_STEPS, HAL


def test_hal_step() -> None:
    learner = begun("hal", double=True, steps=1, tasks=2, minibatch_size=ALL, hal_lambda=0.6, beta=0.3)
    x, y, network = next_step(learner)
    memory, phi, anchors = learner.memory, learner.phi, learner.anchors
    losses = take_step(learner)
    ce = cross_entropy(network(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels]))
    ahead = copy.deepcopy(network)
    descend(ahead, cross_entropy(ahead(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels])))
    moved = ((network(anchors) - ahead(anchors).detach()).double() ** 2).mean()
    assert losses["anchors"].item() == pytest.approx(moved.item(), rel=1e-10)
    descend(network, ce + 0.6 * moved)
    assert_same(learner.network, network)
    torch.testing.assert_close(learner.phi, 0.3 * phi + 0.7 * network.encoder(x).mean(0), atol=1e-12, rtol=1e-10)


def test_hal_anchors() -> None:
    """One point per class, each by its own gradient descent, from the same beginning."""
    learner = begun("hal", double=True, steps=3, gamma=0.2, buffer_size=25)
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
        other = begun("hal", double=True, steps=3, gamma=0.2, buffer_size=25)
        other.end_task(0, few_digits().train(0))
    assert other.anchors.shape == learner.anchors.shape
    start: Tensor = other.anchors[label : label + 1]
    return start


@pytest.mark.parametrize("policy", ["ring", "reservoir"])
def test_hal_fills_its_buffer(policy: str) -> None:
    """By ring: the latest M/T of each task. By reservoir, as the release: the lowest M of all random keys so far."""
    learner = begun("hal", double=True, buffer_size=10, minibatch_size=4, buffer_policy=policy)
    expected: list[tuple[float, int]] = []
    seen: list[bytes] = []
    for i, batch in enumerate(learner.draw(1)):
        generator, same = (torch.Generator().manual_seed(i) for _ in range(2))
        torch.randperm(len(learner.memory), generator=same)  # which are replayed
        seen += [image.numpy().tobytes() for image in learner.D.gather(batch).images]
        keys = torch.rand(len(batch), dtype=torch.float64, generator=same)
        expected += [(float(key), len(expected) + j) for j, key in enumerate(keys)]
        learner.step(batch, 0.1, generator)
    kept = sorted(row for _, row in sorted(expected)[:10]) if policy == "reservoir" else range(len(seen))[-2:]
    assert [image.numpy().tobytes() for image in learner.memory.images] == [seen[row] for row in kept]


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_anchors_with_batchnorm(statistics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each anchor alone, as the release learns them; with running statistics that makes no difference."""
    monkeypatch.setattr("co2l.learning.methods.hal.ANCHOR_STEPS", 3)
    spec = benchmark("seq_cifar10")
    settings = short("hal", "seq_cifar10", width=16, anchor_batchnorm=statistics, augment="none", eta=0.05).settings
    learner = HAL(settings, spec, 0, CPU)
    in_float64(learner.network)
    learner.phi = learner.phi.double()
    images = torch.randint(0, 256, (32, 3, 32, 32), generator=torch.Generator().manual_seed(1)).byte()
    task = Examples(images, torch.arange(32) % 2, torch.zeros(32, dtype=torch.int64))
    learner.begin_task(0, task)
    for batch in learner.draw(1):
        learner.step(batch, 0.05, torch.Generator().manual_seed(2))
    begun_at = anchors_of(learner, task, steps=0)
    found = anchors_of(learner, task, steps=3)
    network = copy.deepcopy(learner.network).train(statistics == "batch")
    tuned, past = copy.deepcopy(network), learner.memory
    loss = torch.nn.functional.cross_entropy(tuned(standardise(past.images, spec)), past.labels)
    for p, g in zip(tuned.parameters(), torch.autograd.grad(loss, list(tuned.parameters())), strict=True):
        p.data -= 0.05 * g
    for label in (0, 1):
        e = begun_at[label : label + 1]
        for _ in range(3):
            e = e.detach().requires_grad_(True)
            known, forgotten = (cross_entropy(n(e), torch.tensor([label])) for n in (network, tuned))
            away = ((network.encoder(e)[0] - learner.phi) ** 2).sum()
            e = e - 0.05 * torch.autograd.grad(known - forgotten + settings.gamma * away, e)[0]
        torch.testing.assert_close(found[label : label + 1], e.detach(), atol=2e-5, rtol=1e-4)


def anchors_of(learner: Any, task: Examples, *, steps: int) -> Tensor:
    """What the end of the task would add, learned in this many steps; the network stays as it was, BatchNorm too."""
    before = {name: value.clone() for name, value in learner.network.state_dict().items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("co2l.learning.methods.hal.ANCHOR_STEPS", steps)
        learner.end_task(0, task)
    assert all(torch.equal(value, before[name]) for name, value in learner.network.state_dict().items())
    found: Tensor = learner.anchors
    learner.anchors = found[:0]
    return found
