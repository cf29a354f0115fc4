"""ER, DER, DER++, FDR, GSS, HAL and iCaRL: single steps against direct transcriptions of the papers' formulas."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tiny import begun, plain, tiny_stream
from torch import Tensor, nn

from co2l.learning.encoders import build_encoder
from co2l.learning.gradients import SampleGradients
from co2l.learning.methods.gss import challenge
from co2l.learning.methods.hal import ANCHOR_STEPS
from co2l.learning.methods.icarl import distilled_targets

ALL = 1000  # a replayed minibatch of everything, so that no draw has to be known
LR = 0.1


def log_softmax(logits: Tensor) -> Tensor:
    """By its definition, in double precision."""
    exponentials = logits.double().exp()
    return (exponentials / exponentials.sum(1, keepdim=True)).log()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return -torch.stack([row[label] for row, label in zip(log_softmax(logits), labels, strict=True)]).mean()


def next_step(learner: Any) -> tuple[Tensor, Tensor, Any]:
    """The next batch as the network will see it, and a copy of the network before it."""
    batch = learner.draw(1)[-1]
    x, y, _ = learner.D.gather(batch)
    return x.float() / 255, y, copy.deepcopy(learner.network)


def take_step(learner: Any) -> dict[str, Tensor]:
    losses: dict[str, Tensor] = learner.step(learner.draw(1)[-1], LR, torch.Generator().manual_seed(5))
    return losses


def descend(network: nn.Module, loss: Tensor) -> None:
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    with torch.no_grad():
        for parameter, g in zip(network.parameters(), gradients, strict=True):
            parameter -= LR * g


def assert_same(network: nn.Module, expected: nn.Module) -> None:
    for found, wanted in zip(network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-6, rtol=1e-4)


def test_er() -> None:
    learner = begun("er", steps=2, tasks=2, minibatch_size=ALL)
    x, y, network = next_step(learner)
    memory = learner.memory
    losses = take_step(learner)
    expected = cross_entropy(network(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels]))
    torch.testing.assert_close(losses["ce"].double(), expected.detach())
    descend(network, expected)
    assert_same(learner.network, network)


@pytest.mark.parametrize(("name", "weights"), [("der", {"alpha": 0.3}), ("derpp", {"alpha": 0.3, "beta": 0.7})])
def test_der_and_derpp(name: str, weights: dict[str, float]) -> None:
    learner = begun(name, steps=2, tasks=2, minibatch_size=ALL, **weights)
    x, y, network = next_step(learner)
    memory = learner.memory
    losses = take_step(learner)
    replayed = network(plain(memory))
    distance = ((replayed.double() - memory.logits.double()) ** 2).sum() / memory.logits.numel()
    ce = cross_entropy(network(x), y)
    loss = ce + 0.3 * distance
    assert losses["logits"].item() == pytest.approx(distance.item(), rel=1e-4)
    if name == "derpp":
        again = cross_entropy(replayed, memory.labels)
        assert losses["replay"].item() == pytest.approx(again.item(), rel=1e-4)
        loss = loss + 0.7 * again
    descend(network, loss)
    assert_same(learner.network, network)


def test_der_stores_the_answers_given_before_the_update() -> None:
    learner = begun("der", buffer_size=50)
    x, y, network = next_step(learner)
    take_step(learner)
    assert torch.equal(learner.memory.labels, y)
    torch.testing.assert_close(learner.memory.logits, network(x).detach())


def test_fdr() -> None:
    learner = begun("fdr", steps=1, tasks=3, minibatch_size=ALL, alpha=0.4)
    x, y, network = next_step(learner)
    memory = learner.memory
    losses = take_step(learner)
    descend(network, cross_entropy(network(x), y))  # first the task, then from there the past
    answers, stored = log_softmax(network(plain(memory))).exp(), log_softmax(memory.logits).exp()
    distance = torch.stack([((a - s) ** 2).sum().sqrt() for a, s in zip(answers, stored, strict=True)]).mean()
    assert losses["distance"].item() == pytest.approx(distance.item(), rel=1e-3)
    descend(network, 0.4 * distance)
    assert_same(learner.network, network)


def test_fdr_keeps_equal_shares_and_the_answers_of_each_tasks_end() -> None:
    learner = begun("fdr", tasks=2, buffer_size=12)
    first = learner.network(plain(learner.memory)).detach()
    assert learner.memory.tasks.tolist() == [0] * 12
    torch.testing.assert_close(learner.memory.logits, first)
    kept = {image.numpy().tobytes(): row for image, row in zip(learner.memory.images, first, strict=True)}
    for i, batch in enumerate(learner.draw(1)):
        learner.step(batch, LR, torch.Generator().manual_seed(i))
    learner.end_task(1, tiny_stream().train(1))
    assert learner.memory.tasks.bincount().tolist() == [6, 6]
    now = learner.network(plain(learner.memory)).detach()
    for image, t, logits, answer in zip(
        learner.memory.images, learner.memory.tasks, learner.memory.logits, now, strict=True
    ):
        torch.testing.assert_close(logits, kept[image.numpy().tobytes()] if t == 0 else answer)


def loop_gradients(network: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    rows = []
    for i in range(len(x)):
        loss = cross_entropy(network(x[i : i + 1]), labels[i : i + 1])
        rows.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.parameters()))]))
    return torch.stack(rows).double()


@pytest.mark.parametrize(("encoder", "shape"), [("digits_conv", (1, 8, 8)), ("resnet18", (3, 8, 8))])
def test_sample_gradients(encoder: str, shape: tuple[int, int, int]) -> None:
    """Inner products and lengths are those of gradients taken one by one; the network is left as it was."""
    torch.manual_seed(0)
    network = nn.Sequential(build_encoder(encoder, shape, 4), nn.LazyLinear(6), nn.ReLU(), nn.LazyLinear(3, bias=False))
    x, labels = torch.rand(9, *shape), torch.arange(9) % 3
    network(x)  # BatchNorm's statistics are no longer those of the start
    before = copy.deepcopy(network.state_dict())
    some, others = (SampleGradients.of(network, x[part], labels[part]) for part in (slice(4), slice(4, None)))
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    expected = loop_gradients(network.eval(), x, labels)
    torch.testing.assert_close(some.products(others).double(), expected[:4] @ expected[4:].T, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(others.norms.double(), expected[4:].square().sum(1).sqrt(), atol=1e-5, rtol=1e-4)


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / (a * a).sum().sqrt() / (b * b).sum().sqrt())


def test_gss_scores() -> None:
    """A batch that still fits gets the score of its mean gradient against all buffered ones."""
    learner = begun("gss", steps=1, buffer_size=50, gmbs=ALL)
    assert learner.memory.priorities.tolist() == [0.1] * 16
    before = learner.memory
    batch = learner.draw(1)[1]
    x, y, _ = learner.D.gather(batch)
    learner.step(batch, LR, torch.Generator().manual_seed(5))
    known = loop_gradients(learner.network, plain(before), before.labels)
    mean = loop_gradients(learner.network, x.float() / 255, y).mean(0)
    expected = max(cosine(mean, row) for row in known) + 1
    assert len(learner.memory) == 16 + len(batch)
    np.testing.assert_allclose(learner.memory.priorities[16:], expected, rtol=1e-4)


def test_gss_lets_in_what_points_elsewhere() -> None:
    """A full buffer: the batch has other labels than those stored, so its gradient opposes all of them."""
    learner = begun("gss", steps=1, buffer_size=16, gmbs=ALL)
    memory = learner.memory
    learner.memory = type(memory)(**{**memory.state(), "labels": torch.zeros_like(memory.labels)})
    task = tiny_stream().train(1)
    new = type(task)(task.images, task.rows[:6], task.labels[:6])
    known = loop_gradients(learner.network, plain(learner.memory), learner.memory.labels)
    each = loop_gradients(learner.network, plain(new), new.labels)
    opened = max(cosine(each.mean(0), row) for row in known) + 1 < 1
    scores = [max(max(cosine(one, row) for row in known) + 1, 1e-6) for one in each]
    learner.select(new, torch.Generator().manual_seed(3))
    changed = (learner.memory.priorities != 0.1).nonzero().squeeze(1)
    assert opened == (len(changed) > 0)
    assert opened, "choose samples whose gradients differ more"
    for i in changed.tolist():
        assert min(abs(float(learner.memory.priorities[i]) - score) for score in scores) < 1e-4


def test_gss_replacement_probabilities() -> None:
    """One candidate: slot i falls with probability s_i/Σs · s_i/(s_i + c); statistical, p > 1e-4."""
    scores, c, n = torch.tensor([0.2, 1.5, 0.8, 0.1], dtype=torch.float64), 0.6, 4000
    generator = torch.Generator().manual_seed(0)
    fallen = np.zeros(5)
    for _ in range(n):
        rows = challenge(scores, torch.tensor([c], dtype=torch.float64), generator)
        replaced = (rows == 4).nonzero().flatten().tolist()
        fallen[replaced[0] if replaced else 4] += 1
    s = scores.numpy()
    expected = s / s.sum() * s / (s + c)
    assert chisquare(fallen, n * np.append(expected, 1 - expected.sum())).pvalue > 1e-4


def test_gss_candidates_come_one_after_the_other() -> None:
    """A candidate of score 0 always wins, and the next one meets the buffer that it left."""
    scores = torch.tensor([1.0, 0.0], dtype=torch.float64)
    rows = challenge(scores, torch.tensor([0.0, 0.0], dtype=torch.float64) + 1e-300, torch.Generator())
    assert rows.tolist() in ([2, 1], [3, 1])


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
    task = tiny_stream().train(0)
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
        other.end_task(0, tiny_stream().train(0))
    assert other.anchors.shape == learner.anchors.shape
    start: Tensor = other.anchors[label : label + 1]
    return start


def test_icarl_targets() -> None:
    old = torch.tensor([[0.0, 2.0, 9.0], [-1.0, 0.0, 9.0]])
    found = distilled_targets(torch.tensor([2, 0]), old, before=2, seen=3)
    s = [1 / (1 + np.exp(-v)) for v in (0.0, 2.0, -1.0, 0.0)]
    np.testing.assert_allclose(found, [[s[0], s[1], 1], [s[2], s[3], 0]], rtol=1e-6)
    assert distilled_targets(torch.tensor([1, 0]), None, before=0, seen=2).tolist() == [[0, 1], [1, 0]]


def test_icarl_step() -> None:
    learner = begun("icarl", steps=1, tasks=2)
    x, y, network = next_step(learner)
    losses = take_step(learner)
    p = 1 / (1 + (-network(x)[:, :4].double()).exp())
    targets = torch.zeros(len(x), 4, dtype=torch.float64)
    for row, label in enumerate(y.tolist()):
        targets[row, label] = 1
    targets[:, :2] = 1 / (1 + (-learner.old(x)[:, :2].double()).exp())
    loss = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()
    assert losses["bce"].item() == pytest.approx(loss.item(), rel=1e-4)
    descend(network, loss)
    assert_same(learner.network, network)


def test_icarl_answers_with_the_nearest_mean_of_exemplars() -> None:
    learner = begun("icarl", steps=3, tasks=2, buffer_size=22)
    task = tiny_stream().train(1)
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
