"""The formulas of the papers, transcribed: losses, steps, single gradients, quadratic programs by brute force."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import torch
from small_runs import plain
from torch import Tensor, nn

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
    now = learner.D.gather(batch)
    return plain(now), now.labels, copy.deepcopy(learner.network)


def take_step(learner: Any) -> dict[str, Tensor]:
    losses: dict[str, Tensor] = learner.step(learner.draw(1)[-1], LR, torch.Generator().manual_seed(5))
    return losses


def descend(network: nn.Module, loss: Tensor) -> None:
    """A plain step of SGD down the loss."""
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    with torch.no_grad():
        for parameter, g in zip(network.parameters(), gradients, strict=True):
            parameter -= LR * g


def assert_same(network: nn.Module, expected: nn.Module) -> None:
    for found, wanted in zip(network.parameters(), expected.parameters(), strict=True):
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-10)


def loop_gradients(network: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    rows = []
    for i in range(len(x)):
        loss = cross_entropy(network(x[i : i + 1]), labels[i : i + 1])
        rows.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.parameters()))]))
    return torch.stack(rows).double()


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / (a * a).sum().sqrt() / (b * b).sum().sqrt())


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


def log_probability(z: Tensor, i: int, j: int, temperature: float) -> Tensor:
    """log of exp(z_i·z_j/T) / Σ_{k≠i} exp(z_i·z_k/T), which float64 holds without any shift."""
    denominator = sum(torch.exp(torch.dot(z[i], z[k]) / temperature) for k in range(len(z)) if k != i)
    return torch.dot(z[i], z[j]) / temperature - torch.log(torch.as_tensor(denominator))


def supcon_loops(z: Tensor, labels: Tensor, anchors: Tensor, tau: float) -> Tensor:
    total = 0.0 * z.sum()
    for i in range(len(z)):
        positives = [j for j in range(len(z)) if j != i and labels[j] == labels[i]]
        if anchors[i]:
            for p in positives:
                total = total - log_probability(z, i, p, tau) / len(positives)
    return total


def distillation_loops(z: Tensor, past: Tensor, kappa: float, kappa_star: float) -> Tensor:
    total = 0.0 * z.sum()
    for i, j in itertools.permutations(range(len(z)), 2):
        weight = torch.exp(log_probability(past, i, j, kappa_star))
        total = total - weight * log_probability(z, i, j, kappa)
    return total


def matching_loops(z: Tensor, past: Tensor) -> Tensor:
    total = 0.0 * z.sum()
    for i in range(len(z)):
        for j in range(z.shape[1]):
            total = total + (z[i, j] - past[i, j]) ** 2
    return total / len(z)


rng = np.random.default_rng(0)
CASES = [(rng.normal(size=d), rng.normal(size=(k, d))) for k, d in [(1, 3), (2, 5), (3, 4), (4, 9), (4, 9), (5, 5)]]
