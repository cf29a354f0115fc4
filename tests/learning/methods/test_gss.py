"""GSS's scores against gradients taken one by one, and its replacements against their probabilities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from formulas import ALL, LR, assert_same, cosine, cross_entropy, descend, loop_gradients, next_step, take_step
from scipy.stats import chisquare
from small_runs import begun, few_digits, plain

from co2l.learning.methods.gss import challenge


def test_gss_step() -> None:
    """`nb` steps on the batch and what is replayed."""
    learner = begun("gss", double=True, steps=2, tasks=2, minibatch_size=ALL, nb=2)
    x, y, network = next_step(learner)
    memory = learner.memory
    take_step(learner)
    for _ in range(2):
        descend(network, cross_entropy(network(torch.cat([x, plain(memory)])), torch.cat([y, memory.labels])))
    assert_same(learner.network, network)


def test_gss_scores() -> None:
    """A batch that still fits gets the score of its mean gradient against all buffered ones."""
    learner = begun("gss", double=True, steps=1, buffer_size=50, gmbs=ALL)
    assert learner.memory.priorities.tolist() == [0.1] * 16
    before = learner.memory
    batch = learner.draw(1)[1]
    now = learner.D.gather(batch)
    learner.step(batch, LR, torch.Generator().manual_seed(5))
    known = loop_gradients(learner.network, plain(before), before.labels)
    mean = loop_gradients(learner.network, plain(now), now.labels).mean(0)
    expected = max(cosine(mean, row) for row in known) + 1
    assert len(learner.memory) == 16 + len(batch)
    np.testing.assert_allclose(learner.memory.priorities[16:], expected, rtol=1e-4)


def test_gss_lets_in_what_points_elsewhere() -> None:
    """A full buffer: the batch has other labels than those stored, so its gradient opposes all of them."""
    learner = begun("gss", double=True, steps=1, buffer_size=16, gmbs=ALL)
    memory = learner.memory
    learner.memory = replace(memory, labels=torch.zeros_like(memory.labels))
    new = few_digits().train(1).gather(torch.arange(6))
    known = loop_gradients(learner.network, plain(learner.memory), learner.memory.labels)
    each = loop_gradients(learner.network, plain(new), new.labels)
    opened = max(cosine(each.mean(0), row) for row in known) + 1 < 1
    scores = [max(max(cosine(one, row) for row in known) + 1, 1e-6) for one in each]
    learner.select(new, torch.Generator().manual_seed(3))
    changed = (learner.memory.priorities != 0.1).nonzero().squeeze(1)
    assert opened == (len(changed) > 0)
    assert opened, "choose examples whose gradients differ more"
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
