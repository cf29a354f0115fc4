"""GEM's projected gradient against a brute-force solution of the quadratic program."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from formulas import CASES, brute_force
from small_runs import begun, plain
from torch.nn import functional as F

from co2l.learning.gradients import gradient
from co2l.learning.methods import gem


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("g", "G"), CASES)
def test_gem_solves_the_quadratic_program(g: np.ndarray, G: np.ndarray, gamma: float) -> None:
    found = gem.project(torch.tensor(g), torch.tensor(G), gamma, 0.0).numpy()
    np.testing.assert_allclose(found, brute_force(g, G, gamma), atol=1e-6)
    if gamma == 0:
        assert (G @ found >= -1e-6).all()  # no past task's loss rises
    if gamma == 0 and (G @ g >= 0).all():
        np.testing.assert_allclose(found, g, atol=1e-9)


@pytest.mark.parametrize("ridge", [1e-3, 0.5])
@pytest.mark.parametrize("length", [1.0, 1e-3, 0.0])
@pytest.mark.parametrize(("g", "G"), CASES)
def test_gem_with_a_ridge(g: np.ndarray, G: np.ndarray, length: float, ridge: float) -> None:
    """One task is known by heart, more or less."""
    G = np.concatenate([length * G[:1], G[1:]])
    found = gem.project(torch.tensor(g), torch.tensor(G), 0.5, ridge).numpy()
    np.testing.assert_allclose(found, brute_force(g, G, 0.5, ridge), atol=1e-6)


def test_gem_with_a_repeated_constraint() -> None:
    g, row = torch.tensor([-1.0, 2.0]), torch.tensor([1.0, 0.0])
    torch.testing.assert_close(gem.project(g, torch.stack([row, row]), 0.0, 0.0), torch.tensor([0.0, 2.0]))


@pytest.mark.parametrize("directions", [1, 2, 5, 10])
@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2, 1e-1])
def test_gem_with_gradients_of_all_lengths(directions: int, noise: float) -> None:
    """Alike and between 1 and 1e-6 long, as of tasks that are known by heart beside one that is being forgotten."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        shared = rng.normal(size=(directions, 300))
        rows = rng.normal(size=(12, directions)) @ shared + noise * rng.normal(size=(12, 300))
        G = rows * 10.0 ** -rng.uniform(0, 6, size=(12, 1))
        g = rng.normal(size=300) - 0.3 * shared.sum(0)
        found = gem.project(*(torch.tensor(each, dtype=torch.float32) for each in (g, G)), 0.5, 0.0).double().numpy()
        assert np.linalg.norm(found) <= np.linalg.norm(g + 0.5 * G.sum(0)) * (1 + 1e-5)  # as γ alone would give
        cosines = G @ found / (np.linalg.norm(G, axis=1) * np.linalg.norm(g + 0.5 * G.sum(0)))
        assert cosines.min() > -3e-3


@pytest.mark.parametrize("length", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize(("g", "G"), CASES)
def test_gem_with_one_gradient_much_shorter(g: np.ndarray, G: np.ndarray, length: float) -> None:
    G = np.concatenate([length * G[:1], G[1:]])
    found = gem.project(torch.tensor(g, dtype=torch.float32), torch.tensor(G, dtype=torch.float32), 0.5, 0.0).numpy()
    np.testing.assert_allclose(found, brute_force(g, G, 0.5), atol=2e-4)


def test_gem_with_a_task_that_has_no_gradient() -> None:
    g, row = torch.tensor([-1.0, 2.0]), torch.tensor([1.0, 0.0])
    found = gem.project(g, torch.stack([row, 0 * row, 1e-30 * row]), 0.0, 0.0)
    torch.testing.assert_close(found, torch.tensor([0.0, 2.0]))


def test_a_step_is_taken_along_the_projected_gradient() -> None:
    """After the step θ ← θ − lr·g̃, where g̃ is recomputed here from the buffer and the batch."""
    learner = begun("gem", double=True, steps=2, tasks=3, gamma=0.5, ridge=0.02)
    network, memory = learner.network, learner.memory
    batch = learner.draw(1)[2]
    now = learner.D.gather(batch)
    g = gradient(network, F.cross_entropy(network(plain(now)), now.labels)).numpy()
    groups = [memory.tasks == t for t in (0, 1)]
    G = np.stack(
        [gradient(network, F.cross_entropy(network(plain(memory)[own]), memory.labels[own])).numpy() for own in groups]
    )
    expected = g if (G @ g >= 0).all() else brute_force(g, G, 0.5, 0.02)
    before = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    learner.step(batch, 0.1, torch.Generator().manual_seed(9))
    after = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    np.testing.assert_allclose(((before - after) / 0.1).numpy(), expected, atol=1e-10)
