"""DER's and DER++'s steps against their formulas."""

from __future__ import annotations

import pytest
import torch
from formulas import ALL, assert_same, cross_entropy, descend, next_step, take_step
from small_runs import begun, plain


@pytest.mark.parametrize(("name", "weights"), [("der", {"alpha": 0.3}), ("derpp", {"alpha": 0.3, "beta": 0.7})])
def test_der_and_derpp(name: str, weights: dict[str, float]) -> None:
    learner = begun(name, double=True, steps=2, tasks=2, minibatch_size=ALL, **weights)
    x, y, network = next_step(learner)
    memory = learner.memory
    losses = take_step(learner)
    replayed = network(plain(memory))
    distance = ((replayed.double() - memory.logits.double()) ** 2).sum() / memory.logits.numel()
    ce = cross_entropy(network(x), y)
    loss = ce + 0.3 * distance
    assert losses["logits"].item() == pytest.approx(distance.item(), rel=1e-12)
    if name == "derpp":
        again = cross_entropy(replayed, memory.labels)
        assert losses["replay"].item() == pytest.approx(again.item(), rel=1e-12)
        loss = loss + 0.7 * again
    descend(network, loss)
    assert_same(learner.network, network)


def test_der_stores_the_answers_given_before_the_update() -> None:
    learner = begun("der", double=True, buffer_size=50)
    x, y, network = next_step(learner)
    take_step(learner)
    assert torch.equal(learner.memory.labels, y)
    torch.testing.assert_close(learner.memory.logits, network(x).detach())
