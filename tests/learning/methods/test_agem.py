"""A-GEM's projected gradient against a brute-force solution of the quadratic program with one constraint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from formulas import CASES, brute_force
from small_runs import begun, plain
from torch.nn import functional as F

from co2l.learning.gradients import gradient
from co2l.learning.methods import agem


@pytest.mark.parametrize(("g", "G"), CASES)
def test_agem_is_the_program_with_one_constraint(g: np.ndarray, G: np.ndarray) -> None:
    for sign in (1, -1):
        r = sign * G[0]
        found = agem.project(torch.tensor(g), torch.tensor(r)).numpy()
        np.testing.assert_allclose(found, brute_force(g, r[None], 0.0), atol=1e-12)
        assert found @ r >= -1e-9


def test_agem_without_a_reference_gradient() -> None:
    g = torch.tensor([1.0, -2.0])
    torch.testing.assert_close(agem.project(g, torch.zeros(2)), g)


def test_a_step_is_taken_along_the_projected_gradient() -> None:
    """After the step θ ← θ − lr·g̃, where g̃ is recomputed here from the buffer and the batch."""
    learner = begun("agem", double=True, steps=2, tasks=3, minibatch_size=100)
    network, memory = learner.network, learner.memory
    batch = learner.draw(1)[2]
    now = learner.D.gather(batch)
    g = gradient(network, F.cross_entropy(network(plain(now)), now.labels)).numpy()
    loss = F.cross_entropy(network(plain(memory)), memory.labels)
    r = gradient(network, loss).numpy()
    expected = g if g @ r >= 0 else brute_force(g, r[None], 0.0)
    before = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    learner.step(batch, 0.1, torch.Generator().manual_seed(9))
    after = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    np.testing.assert_allclose(((before - after) / 0.1).numpy(), expected, atol=1e-10)
