"""Training steps to measure: Co²L's second task on random images, as a run takes them and with the bare model only."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from co2l.data.benchmarks import Benchmark, benchmark, standardise
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.losses import relation_distillation, similarity, supcon
from co2l.learning.methods import configure
from co2l.learning.methods.co2l import Co2L, Co2LSettings

RATE = 1e-4  # small: the steps need not learn


def random_examples(spec: Benchmark, n: int, t: int) -> Examples:
    """Examples of task `t` that show nothing: what a step costs does not depend on it."""
    images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8, generator=generator_for(t, "images"))
    labels = torch.randint(spec.classes_per_task, (n,), generator=generator_for(t, "labels"))
    return Examples(images, labels, torch.full_like(labels, t))


def second_task(name: str, batch_size: int, n: int, device: torch.device, **settings: int) -> Co2L:
    """Co²L at the start of its second task, with a buffer."""
    spec = benchmark(name)
    config = configure(name, "co2l", {"batch_size": batch_size, "buffer_size": 200, **settings})
    assert isinstance(config.settings, Co2LSettings)
    method = Co2L(config.settings, spec, 0, device)
    method.end_task(0, random_examples(spec, n, 0).to(device))
    method.begin_task(1, random_examples(spec, n, 1).to(device))
    return method


def whole_steps(method: Co2L) -> Iterator[int]:
    """Draw, gather, augment, standardise and update; yields the number of views."""
    for epoch in itertools.count(1):
        for i, batch in enumerate(method.draw(epoch)):
            method.step(batch, RATE, generator_for(0, "epoch", epoch, "step", i, device=method.device))
            yield method.views(batch)


def bare_steps(method: Co2L, batch_size: int) -> Iterator[int]:
    """Updates on one fixed batch of views; yields their number."""
    now = method.D.gather(torch.arange(batch_size, device=method.device))
    views = standardise(now.images.repeat(2, 1, 1, 1), method.benchmark)
    labels, anchors = now.labels.repeat(2), (now.tasks == 1).repeat(2)
    while True:
        update(method, views, labels, anchors)
        yield len(views)


def update(method: Co2L, views: Tensor, labels: Tensor, anchors: Tensor) -> None:
    """Only the model's own work: both models forward, losses, backward, optimiser."""
    assert method.psi_past is not None
    with torch.no_grad():
        past = similarity(F.normalize(method.psi_past.g(method.psi_past.f(views))))
    relations = similarity(F.normalize(method.psi.g(method.psi.f(views))))
    loss = supcon(relations, labels, 0.5, anchors=anchors) + relation_distillation(relations, past, 0.2, 0.01)
    method.optimiser.descend(loss, RATE)
