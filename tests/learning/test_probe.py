"""The probe draws classes evenly, follows the paper's rates, learns what is separable and leaves the encoder alone.

Its switches, in every position, against what the release does or a computation of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from co2l.data import buffer
from co2l.data.benchmarks import benchmark
from co2l.data.examples import Examples, concatenate
from co2l.data.randomness import generator_for
from co2l.data.root import data_root
from co2l.data.streams import Split, open_stream, rotate
from co2l.errors import Co2lError
from co2l.learning import metrics
from co2l.learning.encoders import Encoder, build_encoder, initialised
from co2l.learning.methods import configure
from co2l.learning.probe import ROTATED_COPIES, BalancedDraws, ProbeRecipe, balanced_groups, train_probe


def test_classes_are_drawn_evenly_and_then_their_examples() -> None:
    labels = torch.tensor([3] * 100 + [5] * 10 + [9] * 2)[torch.randperm(112, generator=generator_for(1))]
    drawn = BalancedDraws(labels).draw(30_000, generator_for(0))
    assert chisquare([int((labels[drawn] == c).sum()) for c in (3, 5, 9)]).pvalue > 1e-4
    for c in (3, 5, 9):
        members = (labels == c).nonzero().squeeze(1)
        assert chisquare([int((drawn == i).sum()) for i in members]).pvalue > 1e-4


def test_rates_of_the_paper() -> None:
    recipe = ProbeRecipe("paper", epochs=100, lr=1.0, batch_size=256)
    expected = {1: 1.0, 60: 1.0, 61: 0.2, 75: 0.2, 76: 0.04, 90: 0.04, 91: 0.008, 100: 0.008}
    assert {epoch: pytest.approx(recipe.lr_at(epoch)) for epoch in expected} == expected


@pytest.mark.parametrize("kind", ["paper", "fast", "ridge"])
def test_learns_from_task_and_buffer_without_touching_the_encoder(kind: Any) -> None:
    spec = benchmark("seq_digits")
    tasks = open_stream("seq_digits", split=Split("search"), seed=0, data=data_root())
    encoder = initialised(lambda: build_encoder("digits_conv", spec.image_shape, 64), 0)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    memory = buffer.add(buffer.empty(spec.image_shape), tasks.train(0), 60, "class_balanced", generator_for(0))
    task = tasks.train(1)
    recipe = ProbeRecipe(kind, epochs=20, lr=1.0, batch_size=64, weight_decay=1e-3 if kind == "ridge" else 0.0)
    probe = train_probe(encoder, spec, concatenate([task, memory]), len(task), recipe, seed=0, t=1)
    row = metrics.accuracies(probe, tasks, range(2), torch.device("cpu"))
    assert min(row["class_il"]) > 70  # random features of digits are nearly separable; chance is 25
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


SPEC = benchmark("r_digits")
NEW, OLD = 6, 5  # examples of the current task and of the buffer


class Seen(Encoder):
    """Pixels as features, in float64, and a list of all that it was shown."""

    dim = 64

    def __init__(self) -> None:
        super().__init__()
        self.images: list[Tensor] = []

    def compute(self, x: Tensor) -> Tensor:
        self.images += list(x)
        return x.flatten(1)


def rotated_task() -> Examples:
    """Digits of domain 2 and, as a buffer, fewer of domains 0 and 1."""
    tasks = open_stream("r_digits", split=Split("search"), seed=0, data=data_root())
    parts = [tasks.train(t).gather(torch.arange(n)) for t, n in ((2, NEW), (0, OLD - 1), (1, 1))]
    return concatenate(parts)


def trained(recipe: ProbeRecipe, data: Examples) -> tuple[Seen, Any]:
    encoder = Seen()
    return encoder, train_probe(encoder, SPEC, data, NEW, recipe, seed=3, t=2)[1]


@pytest.mark.parametrize("balance", ["domain", "domain_class", "label"])
def test_what_is_drawn_evenly(balance: Any) -> None:
    """The release weighs an example by 1/(number of its domain): in the mean, each domain is drawn equally often."""
    data = rotated_task()
    names = {
        "domain": data.tasks.tolist(),
        "label": data.labels.tolist(),
        "domain_class": list(zip(data.tasks.tolist(), data.labels.tolist(), strict=True)),
    }[balance]
    weights = np.array([1 / names.count(name) for name in names])
    drawn = BalancedDraws(balanced_groups(data, balance)).draw(50_000, generator_for(2))
    assert chisquare(drawn.bincount(minlength=len(data)), 50_000 * weights / weights.sum()).pvalue > 1e-4
    share = [float(np.sum(weights[data.tasks.numpy() == t]) / weights.sum()) for t in range(3)]
    assert (share == pytest.approx([1 / 3] * 3)) == (balance == "domain")


@pytest.mark.parametrize("views", ["all", "buffered"])
def test_what_is_augmented(views: Any) -> None:
    """In the release the current domain's images are shown as they are, and buffered ones cropped at random."""
    data = rotated_task()
    encoder, _ = trained(ProbeRecipe("paper", epochs=40, lr=0.1, batch_size=4, views=views), data)
    plain = [{(image.float() / 255).numpy().tobytes() for image in part} for part in data.images.split([NEW, OLD])]
    shown = [image.numpy().tobytes() for image in encoder.images]
    current, buffered = (sum(image in part for image in shown) / len(shown) for part in plain)
    assert len(shown) == 40 * (NEW + OLD)
    assert buffered < 0.05  # a crop of the whole image, once in a while
    assert (current > 0.2) == (views == "buffered")


def test_weight_decay() -> None:
    """Momentum and decay of SGD, step by step; the paper's probe has no decay."""
    data, wd = rotated_task(), 0.2
    ends = {}
    for decay in (0.0, wd):
        recipe = ProbeRecipe("fast", epochs=3, lr=0.5, batch_size=4, weight_decay=decay)
        w, b = (p.detach().double() for p in start_of(data))
        vw, vb = torch.zeros_like(w), torch.zeros_like(b)
        x = data.images.double().flatten(1) / 255
        draws = BalancedDraws(balanced_groups(data, "domain_class"))
        for epoch in (1, 2, 3):
            lr = 0.5 * 0.2 ** ((epoch > 1.8) + (epoch > 2.25) + (epoch > 2.7))
            for batch in draws.draw(len(data), generator_for(3, "task", 2, "probe", "epoch", epoch)).split(4):
                p = (x[batch] @ w.T + b).softmax(1)
                error = (p - torch.eye(10, dtype=torch.float64)[data.labels[batch]]) / len(batch)
                vw, vb = 0.9 * vw + error.T @ x[batch] + decay * w, 0.9 * vb + error.sum(0) + decay * b
                w, b = w - lr * vw, b - lr * vb
        _, linear = trained(recipe, data)
        torch.testing.assert_close(linear.weight.detach().double(), w, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(linear.bias.detach().double(), b, atol=1e-5, rtol=1e-4)
        ends[decay] = w.norm()
    assert ends[wd] < 0.9 * ends[0.0]


def start_of(data: Examples) -> Any:
    """The classifier before its first step: after one that moves it by next to nothing."""
    _, linear = trained(ProbeRecipe("fast", epochs=1, lr=1e-30, batch_size=100), data)
    return linear.parameters()


def test_ridge_is_the_weighted_least_squares_solution() -> None:
    """By numpy, from rows scaled by their weights' roots and rows for the penalty, which spares the intercept."""
    data, penalty = rotated_task(), 0.05
    _, linear = trained(ProbeRecipe("ridge", epochs=1, lr=1, batch_size=1, weight_decay=penalty), data)
    groups = list(zip(data.tasks.tolist(), data.labels.tolist(), strict=True))
    root = np.sqrt([1 / groups.count(group) / len(set(groups)) for group in groups])[:, None]
    x = data.images.flatten(1).numpy() / 255
    rows = np.vstack([root * np.hstack([x, np.ones((len(x), 1))]), np.sqrt(penalty) * np.eye(64, 65)])
    targets = np.vstack([root * np.eye(10)[data.labels.numpy()], np.zeros((64, 10))])
    solution = np.linalg.lstsq(rows, targets, rcond=None)[0]
    np.testing.assert_allclose(linear.weight.detach().numpy().T, solution[:-1], atol=1e-6)
    np.testing.assert_allclose(linear.bias.detach().numpy(), solution[-1], atol=1e-6)


def test_ridge_without_a_penalty_is_refused() -> None:
    with pytest.raises(Co2lError, match="probe=ridge needs a penalty above 0; set probe_weight_decay"):
        configure("r_digits", "co2l", {"probe": "ridge"})


def test_rotated_copies_of_the_buffer() -> None:
    """Each with one angle for all buffered examples; the current task's are never rotated."""
    data = rotated_task()
    encoder, _ = trained(ProbeRecipe("fast", epochs=1, lr=0.1, batch_size=100, rotation=90.0), data)
    shown = torch.stack(encoder.images)
    assert len(shown) == NEW + OLD + ROTATED_COPIES * OLD
    torch.testing.assert_close(shown[: NEW + OLD], data.images.float() / 255)
    draw = torch.rand(ROTATED_COPIES, generator=generator_for(3, "task", 2, "probe", "rotation"), dtype=torch.float64)
    angles = [-90 + 180 * float(u) for u in draw]
    assert max(abs(angle) for angle in angles) > 45
    for copy, angle in zip(shown[NEW + OLD :].split(OLD), angles, strict=True):
        expected = rotate(data.images[NEW:], angle, "bilinear")
        torch.testing.assert_close(copy, expected.float() / 255)
    without, _ = trained(ProbeRecipe("fast", epochs=1, lr=0.1, batch_size=100), data)
    assert len(without.images) == NEW + OLD
