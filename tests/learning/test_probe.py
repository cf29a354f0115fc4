"""The probe draws classes evenly, follows the paper's rates, learns what is separable and leaves the encoder alone."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare

from co2l.data import buffer
from co2l.data.benchmarks import benchmark
from co2l.data.examples import concatenate
from co2l.data.randomness import generator_for
from co2l.data.sources import data_root
from co2l.data.streams import Split, open_stream
from co2l.learning import metrics
from co2l.learning.encoders import build_encoder, initialised
from co2l.learning.probe import BalancedDraws, ProbeRecipe, train_probe


def test_classes_are_drawn_evenly_and_then_their_examples() -> None:
    labels = torch.tensor([3] * 100 + [5] * 10 + [9] * 2)[torch.randperm(112, generator=generator_for(1))]
    drawn = BalancedDraws(labels).draw(30_000, generator_for(0))
    assert chisquare([int((labels[drawn] == c).sum()) for c in (3, 5, 9)]).pvalue > 1e-4
    for c in (3, 5, 9):
        members = (labels == c).nonzero().squeeze(1)
        assert chisquare([int((drawn == i).sum()) for i in members]).pvalue > 1e-4


def test_rates_of_the_paper() -> None:
    recipe = ProbeRecipe(epochs=100, lr=1.0, batch_size=256, augmented=True)
    expected = {1: 1.0, 60: 1.0, 61: 0.2, 75: 0.2, 76: 0.04, 90: 0.04, 91: 0.008, 100: 0.008}
    assert {epoch: pytest.approx(recipe.lr_at(epoch)) for epoch in expected} == expected


@pytest.mark.parametrize("augmented", [True, False])
def test_learns_from_task_and_buffer_without_touching_the_encoder(augmented: bool) -> None:
    spec = benchmark("seq_digits")
    tasks = open_stream("seq_digits", split=Split("search"), seed=0, data=data_root(None))
    encoder = initialised(lambda: build_encoder("digits_conv", spec.image_shape, 64), 0)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    memory = buffer.add(buffer.empty(spec.image_shape), tasks.train(0), 60, "class_balanced", generator_for(0))
    task = tasks.train(1)
    recipe = ProbeRecipe(epochs=20, lr=1.0, batch_size=64, augmented=augmented)
    probe = train_probe(encoder, spec, concatenate([task, memory]), len(task), recipe, seed=0, t=1)
    row = metrics.accuracies(probe, tasks, range(2), torch.device("cpu"))
    assert min(row["class_il"]) > 70  # random features of digits are nearly separable; chance is 25
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
