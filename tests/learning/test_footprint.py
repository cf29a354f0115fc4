"""The memory estimate, against the bytes that torch's allocator hands out in real steps."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from small_runs import CPU

from co2l.cluster import selftest
from co2l.data import augmentation, benchmarks, buffer
from co2l.data.benchmarks import BENCHMARKS, Benchmark, benchmark
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.data.sources import SOURCES, load
from co2l.errors import Co2lError
from co2l.learning.config import RunConfig
from co2l.learning.footprint import footprint
from co2l.learning.methods import METHODS, configure


def drawn(spec: Benchmark, n: int, t: int) -> Examples:
    images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8, generator=generator_for(t, "images"))
    labels = torch.arange(n) % spec.classes_per_task
    labels += t * spec.classes_per_task if spec.scenario == "class" else 0
    return Examples(images, labels, torch.full((n,), t))


def measured(config: RunConfig, n: int) -> int:
    """The most bytes at once, by the allocator's own events, from building the method to its second step in task 2."""
    spec = benchmark(config.benchmark)

    def work() -> None:
        method: Any = METHODS[config.method](config.settings, spec, 0, CPU)
        size = config.settings.buffer_size  # type: ignore[attr-defined]  # both methods have one
        method.memory = buffer.add(method.memory, drawn(spec, size, 0), size, "reservoir", generator_for(0, "buffer"))
        task = drawn(spec, n, 1)
        method.begin_task(1, task)
        batch = method.draw(1)[0]
        for i in range(2):
            method.step(batch, 0.01, generator_for(0, "step", i))

    gc.collect()
    return selftest.allocated(work, CPU)


@pytest.mark.parametrize(
    ("name", "method", "settings"),
    [
        ("seq_cifar10", "co2l", {"width": 16, "batch_size": 8}),
        ("seq_cifar10", "co2l", {"width": 16, "batch_size": 16}),
        ("seq_cifar10", "co2l", {"width": 32, "batch_size": 8}),
        ("seq_cifar10", "co2l", {"width": 32, "batch_size": 16}),
        ("seq_cifar10", "co2l", {"width": 64, "batch_size": 4}),
        ("seq_cifar10", "er", {"width": 16, "batch_size": 32}),
        ("seq_cifar10", "er", {"width": 32, "batch_size": 8, "minibatch_size": 8}),
        ("seq_cifar10", "er", {"width": 64, "batch_size": 4, "minibatch_size": 4}),
        ("seq_tiny_imagenet", "co2l", {"width": 16, "batch_size": 4}),
        ("r_mnist", "co2l", {"batch_size": 64}),
        ("r_mnist", "co2l", {"batch_size": 256}),
        ("r_mnist", "er", {"batch_size": 32}),
        ("seq_digits", "co2l", {}),
    ],
)
def test_the_estimate_is_what_real_steps_allocate(name: str, method: str, settings: dict[str, int]) -> None:
    config = configure(name, method, {"buffer_size": 200, **settings})
    n = 4 * config.settings.batch_size
    assert footprint(config, 1, examples=n).peak == pytest.approx(measured(config, n), rel=0.15)


def test_what_the_bytes_are() -> None:
    """Counted by hand: the R-MNIST network has 430,500 parameters and a projector of 501,000 in front of the loss."""
    config = configure("r_mnist", "co2l", {"batch_size": 512, "buffer_size": 200})
    encoder = 20 * 25 + 20 + 50 * 20 * 25 + 50 + 800 * 500 + 500
    parameters = 4 * (encoder + 2 * (500 * 500 + 500))
    first, later = footprint(config, 0), footprint(config)
    assert (first.weights, first.past) == (parameters, 0)
    assert (later.weights, later.past) == (parameters, parameters)
    assert later.optimiser == pytest.approx(2 * parameters, rel=0.001)  # gradients and momentum
    image = 28 * 28 + 8 + 8
    assert first.data == 54_000 * image
    assert later.data == pytest.approx((54_000 + 200 + 54_200) * image, rel=0.001)  # the task, M, and D of both
    assert later.step > 2 * 512 * 4 * 20 * 24 * 24  # the first convolution's output alone, of both views
    assert later.batch == 512


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_footprint(method: str) -> None:
    small = footprint(configure("seq_digits", method, {"batch_size": 8}))
    large = footprint(configure("seq_digits", method, {"batch_size": 64}))
    assert small.peak < large.peak
    assert sum(kernel.flops for kernel in large.kernels) > sum(kernel.flops for kernel in small.kernels) > 0


def test_the_past_model_answers_before_the_current_ones_activations_pile_up() -> None:
    config = configure("seq_cifar10", "co2l", {"batch_size": 64})
    assert footprint(config, 1).step < 1.05 * footprint(config, 0).step


def test_half_precision_halves_the_activations() -> None:
    config = configure("seq_cifar10", "er", {"batch_size": 16, "width": 16})
    with torch.autocast("cpu", torch.bfloat16):
        half = footprint(config)
    assert half.step == pytest.approx(footprint(config).step / 2, rel=0.1)


def test_a_method_that_leaves_torch_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS["er"], "learn", lambda self, now, *_: self.network(now.images.float()).numpy())
    with pytest.raises(Co2lError, match="er: what it needs cannot be estimated") as caught:
        footprint(configure("seq_digits", "er"))
    assert "\n" not in str(caught.value)


def test_nothing_fake_stays_behind() -> None:
    """A run after an estimate is the run without one: no cached constant is a tensor without memory."""
    config = configure("seq_cifar10", "co2l", {"width": 16, "batch_size": 4})
    for cached in (augmentation.constant, augmentation._bounds, benchmarks._statistics):
        cached.cache_clear()
    footprint(config)
    spec = benchmark("seq_cifar10")
    method = METHODS["co2l"](config.settings, spec, 0, CPU)
    method.begin_task(0, drawn(spec, 8, 0))
    losses = method.step(method.draw(1)[0], 0.01, generator_for(0, "step"))
    assert {type(value) for value in losses.values()} == {torch.Tensor}
    assert all(torch.isfinite(value) for value in losses.values())


def test_the_global_generator_is_untouched() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    footprint(configure("seq_digits", "er"))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_benchmark_knows_how_many_examples_it_has(tmp_path: Any) -> None:
    digits = len(load("digits", "train", tmp_path).labels)
    sizes = {"digits": digits, "cifar10": 50_000, "cifar100": 50_000, "mnist": 60_000, "tiny_imagenet": 100_000}
    assert sizes.keys() == SOURCES.keys()
    assert {spec.name: spec.examples for spec in BENCHMARKS.values()} == {
        spec.name: sizes[spec.source] for spec in BENCHMARKS.values()
    }
