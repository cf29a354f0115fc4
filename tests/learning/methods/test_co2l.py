"""Whole steps of Co²L in float64 against the paper's sums, over two tasks; which views are anchors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from formulas import distillation_loops, matching_loops, supcon_loops
from small_runs import CPU, few_digits, in_float64, short
from torch import Tensor
from torch.nn.functional import normalize

from co2l.data.augmentation import augment
from co2l.errors import Co2lError
from co2l.learning.methods.co2l import Co2L

LR, WD, MOMENTUM = 0.05, 0.01, 0.9


def learner_of(name: str = "seq_digits", **settings: Any) -> Any:
    config = short("co2l", name, batch_size=8, weight_decay=WD, momentum=MOMENTUM, tau=0.5, **settings)
    learner = Co2L(config.settings, few_digits(name).benchmark, 0, CPU)
    in_float64(learner.psi)
    return learner


def views_of(learner: Any, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a step with `generator()` sees; augmentation has tests of its own."""
    now = learner.D.gather(batch)
    views = augment(now.images.repeat(2, 1, 1, 1), learner.benchmark.augmentation, generator())
    return views, now.labels.repeat(2), now.tasks.repeat(2)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def released_loss(learner: Any, psi: Any, past: Any, batch: Tensor) -> Tensor:
    """The released scale: (τ/0.07) × the sum over anchors, and IRD's sum, each divided by all 2N views."""
    settings, (x, labels, tasks) = learner.settings, views_of(learner, batch)
    h = psi.f(x)
    z = normalize(psi.g(h))
    anchors = torch.ones_like(tasks) if settings.supcon == "symmetric" else tasks == learner.t
    loss = supcon_loops(z, 100 * tasks + labels, anchors, settings.tau) / len(x) * settings.tau / 0.07
    if past is None:
        return loss
    h_past = past.f(x).detach()
    kinds = {
        "ird": lambda: distillation_loops(z, normalize(past.g(h_past)).detach(), *temperatures) / len(x),
        "seed": lambda: distillation_loops(normalize(h), normalize(h_past), *temperatures) / len(x),
        "mse_embedding": lambda: matching_loops(h, h_past),
        "mse_projection": lambda: matching_loops(psi.g(h), past.g(h_past).detach()),
    }
    temperatures = settings.kappa, settings.kappa_star
    return loss + settings.distill_power * kinds[settings.distillation]()


VARIANTS: list[dict[str, Any]] = [
    {"distillation": "ird", "kappa": 0.2, "kappa_star": 0.1},
    {"distillation": "ird", "kappa": 0.2, "kappa_star": 0.1, "supcon": "symmetric", "distill_power": 0.7},
    {"distillation": "seed", "kappa": 0.2, "kappa_star": 0.1},
    {"distillation": "mse_embedding"},
    {"distillation": "mse_projection"},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_steps_over_two_tasks(settings: dict[str, Any]) -> None:
    """Two steps of each task: SGD with weight decay, and momentum that carries over from the first to the second."""
    learner, stream = learner_of(**settings), few_digits()
    psi, past = copy.deepcopy(learner.psi), None
    velocity = [torch.zeros_like(p) for p in psi.parameters()]
    for t in range(2):
        if t > 0:
            learner.end_task(0, stream.train(0))
            past = copy.deepcopy(psi)
        learner.begin_task(t, stream.train(t))
        mixed = [b for b in learner.draw(1) if t == 0 or (learner.D.tasks[b] == 0).any()]
        for batch in mixed[:2]:
            loss = released_loss(learner, psi, past, batch)
            gradients = torch.autograd.grad(loss, list(psi.parameters()))
            learner.step(batch, LR, generator())
            with torch.no_grad():
                for p, g, v in zip(psi.parameters(), gradients, velocity, strict=True):
                    v.mul_(MOMENTUM).add_(g + WD * p)
                    p -= LR * v
    for found, expected in zip(learner.psi.parameters(), psi.parameters(), strict=True):
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("rule", ["current", "released"])
@pytest.mark.parametrize("lost", [False, True])
def test_anchors_once_the_reservoir_lost_a_domain(rule: str, lost: bool) -> None:
    """The release numbers the current domain by those in its buffer, so that one lost leaves no view an anchor."""
    learner, stream = learner_of("r_digits", anchors=rule, kappa_star=0.1), few_digits("r_digits")
    for t in range(2):
        learner.begin_task(t, stream.train(t))
        learner.end_task(t, stream.train(t))
    memory = learner.memory
    assert set(memory.tasks.tolist()) == {0, 1}
    if lost:
        learner.memory = memory.gather((memory.tasks == 1).nonzero().squeeze(1))
    learner.begin_task(2, stream.train(2))
    batch = learner.draw(1)[0]
    x, labels, tasks = views_of(learner, batch)
    anchors = tasks == (-1 if rule == "released" and lost else 2)
    z = normalize(learner.psi.g(learner.psi.f(x)))
    expected = supcon_loops(z, 100 * tasks + labels, anchors, 0.5) / len(x) * 0.5 / 0.07
    found = learner.step(batch, LR, generator())["supcon"]
    torch.testing.assert_close(found, expected.detach(), atol=1e-12, rtol=1e-10)
    assert (found == 0) == (rule == "released" and lost)


def test_the_released_rule_for_anchors_is_for_rotated_tasks() -> None:
    with pytest.raises(Co2lError, match="which seq_digits has not; set anchors=current"):
        short("co2l", anchors="released")
