"""GEM's and A-GEM's projected gradients against a brute-force solution of the quadratic program."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tiny import begun, plain
from torch.nn import functional as F

from co2l.learning.gradients import gradient, group_gradients
from co2l.learning.methods import agem, gem

rng = np.random.default_rng(0)
CASES = [(rng.normal(size=d), rng.normal(size=(k, d))) for k, d in [(1, 3), (2, 5), (3, 4), (4, 9), (4, 9), (5, 5)]]


def brute_force(g: np.ndarray, G: np.ndarray, gamma: float, ridge: float = 0.0) -> np.ndarray:
    """v = argmin ½vᵀGGᵀv + (Gg)ᵀv, v ≥ γ: the best feasible stationary point over all sets of active bounds."""
    P, q, k = G @ G.T + ridge * np.eye(len(G)), G @ g, len(G)
    best, value = None, np.inf
    for active in itertools.product([True, False], repeat=k):
        bound = np.array(active)
        v = np.full(k, gamma)
        if not bound.all():
            v[~bound] = np.linalg.solve(P[np.ix_(~bound, ~bound)], -q[~bound] - P[np.ix_(~bound, bound)] @ v[bound])
        objective = v @ P @ v / 2 + q @ v
        if (v >= gamma - 1e-12).all() and objective < value:
            best, value = v, objective
    assert best is not None
    return g + best @ G


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


def test_batched_gradients_are_those_of_one_group_at_a_time() -> None:
    learner = begun("gem", steps=1, tasks=3, buffer_size=18)  # 3 samples of each of 5 tasks, 2 of them past
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


@pytest.mark.parametrize("name", ["gem", "agem"])
def test_a_step_is_taken_along_the_projected_gradient(name: str) -> None:
    """After the step θ ← θ − lr·g̃, where g̃ is recomputed here from the buffer and the batch."""
    learner = begun(name, steps=2, tasks=3, minibatch_size=100, gamma=0.5, ridge=0.02)
    network, memory = learner.network, learner.memory
    batch = learner.draw(1)[2]
    x, y, _ = learner.D.gather(batch)
    g = gradient(network, F.cross_entropy(network(x.float() / 255), y)).double().numpy()
    groups = [memory.tasks == t for t in (0, 1)] if name == "gem" else [memory.tasks >= 0]
    G = np.stack(
        [
            gradient(network, F.cross_entropy(network(plain(memory)[own]), memory.labels[own])).double().numpy()
            for own in groups
        ]
    )
    expected = g if (G @ g >= 0).all() else brute_force(g, G, *((0.5, 0.02) if name == "gem" else (0.0, 0.0)))
    before = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    learner.step(batch, 0.1, torch.Generator().manual_seed(9))
    after = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    np.testing.assert_allclose(((before - after) / 0.1).double().numpy(), expected, atol=2e-5)
