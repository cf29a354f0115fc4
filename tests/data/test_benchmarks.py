"""The benchmarks are those of the paper, and standardising is what torchvision does."""

from __future__ import annotations

import pytest
import torch

from co2l.data.benchmarks import BENCHMARKS, benchmark, standardise
from co2l.data.randomness import generator_for
from co2l.data.torchvision_import import torchvision
from co2l.errors import Co2lError


def test_the_registry_agrees_with_the_paper() -> None:
    seen = {b.name: (b.scenario, b.tasks, b.classes_per_task, b.num_classes) for b in BENCHMARKS.values()}
    assert {name: seen.pop(name) for name in ("seq_cifar100", "p_mnist")} == {  # which the paper has not
        "seq_cifar100": ("class", 10, 10, 100),
        "p_mnist": ("domain", 20, 10, 10),
    }
    assert seen == {
        "seq_cifar10": ("class", 5, 2, 10),
        "seq_tiny_imagenet": ("class", 10, 20, 200),
        "r_mnist": ("domain", 20, 10, 10),
        "seq_digits": ("class", 5, 2, 10),
        "r_digits": ("domain", 5, 10, 10),
    }
    scales = {name: BENCHMARKS[name].augmentation.crop_scale for name in seen}
    assert [scales[n] for n in ("seq_cifar10", "seq_tiny_imagenet", "r_mnist")] == [(0.2, 1), (0.1, 1), (0.7, 1)]
    assert {name for name in seen if BENCHMARKS[name].augmentation.blur} == {"seq_tiny_imagenet"}


def test_an_unknown_benchmark_answers_with_the_closest() -> None:
    with pytest.raises(Co2lError, match="did you mean 'seq_cifar10'"):
        benchmark("seq_cifar_10")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_standardising_equals_torchvisions(name: str) -> None:
    chosen = benchmark(name)
    images = torch.randint(256, (6, *chosen.image_shape), dtype=torch.uint8, generator=generator_for(0))
    values = images.float() / 255
    theirs = torchvision.transforms.functional.normalize(values, chosen.mean, chosen.std)
    torch.testing.assert_close(standardise(values, chosen), theirs)
    torch.testing.assert_close(standardise(images, chosen), theirs)
