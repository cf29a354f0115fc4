"""FDR's two steps against their formulas, and what it stores when a task ends."""

from __future__ import annotations

import pytest
import torch
from formulas import ALL, LR, assert_same, cross_entropy, descend, log_softmax, next_step, take_step
from small_runs import begun, few_digits, plain


@pytest.mark.parametrize("alpha", [0.4, 1.0], ids=["weighted", "as the release, which ignores α"])
def test_fdr(alpha: float) -> None:
    learner = begun("fdr", double=True, steps=1, tasks=3, minibatch_size=ALL, alpha=alpha)
    x, y, network = next_step(learner)
    memory = learner.memory
    losses = take_step(learner)
    descend(network, cross_entropy(network(x), y))  # first the task, then from there the past
    answers, stored = log_softmax(network(plain(memory))).exp(), log_softmax(memory.logits).exp()
    distance = torch.stack([((a - s) ** 2).sum().sqrt() for a, s in zip(answers, stored, strict=True)]).mean()
    assert losses["distance"].item() == pytest.approx(distance.item(), rel=1e-12)
    descend(network, distance if alpha == 1 else alpha * distance)
    assert_same(learner.network, network)


def test_fdr_keeps_equal_shares_and_the_answers_of_each_tasks_end() -> None:
    learner = begun("fdr", double=True, tasks=2, buffer_size=12)
    first = learner.network(plain(learner.memory)).detach()
    assert learner.memory.tasks.tolist() == [0] * 12
    torch.testing.assert_close(learner.memory.logits, first)
    kept = {image.numpy().tobytes(): row for image, row in zip(learner.memory.images, first, strict=True)}
    for i, batch in enumerate(learner.draw(1)):
        learner.step(batch, LR, torch.Generator().manual_seed(i))
    learner.end_task(1, few_digits().train(1))
    assert learner.memory.tasks.bincount().tolist() == [6, 6]
    now = learner.network(plain(learner.memory)).detach()
    for image, t, logits, answer in zip(
        learner.memory.images, learner.memory.tasks, learner.memory.logits, now, strict=True
    ):
        torch.testing.assert_close(logits, kept[image.numpy().tobytes()] if t == 0 else answer)
