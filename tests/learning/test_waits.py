"""On an accelerator no step waits for it, but for the few listed here, and a run gives what it gives on a CPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import Seen, fake_device
from small_runs import few_digits, finish, short

from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.learning.events import RunDone
from co2l.learning.methods import METHODS, configure, hal
from co2l.learning.run import run
from co2l.learning.store import Store

FAKE = torch.device("fake")
SMALL = {"batch_size": 2, "width": 16, "minibatch_size": 2, "gmbs": 2, "buffer_size": 20, "buffer_policy": "reservoir"}

# What waits in a step of the second task, by line of code, and why it has to
ALLOWED = {
    "gem": {
        "gem.py _local_scalar_dense": "whether a step would hurt a past task decides whether a program is solved",
        "gem.py copy from the device": "which is solved on the CPU, in as many dimensions as there are past tasks",
        "gem.py copy to the device": "and its answer is used on the device",
    },
    "gss": {"gss.py _local_scalar_dense": "a batch's score decides whether the buffer is opened to it"},
    "hal": {"buffer_policies.py nonzero": "how many examples of the newest task the ring holds"},
}


def task(spec: Benchmark, t: int, n: int) -> Examples:
    """`n` random images on the fake device."""
    images = torch.randint(256, (n, *spec.image_shape), dtype=torch.uint8, generator=generator_for(t, "images"))
    first = t * spec.classes_per_task if spec.scenario == "class" else 0
    labels = first + torch.arange(n) % spec.classes_per_task
    return Examples(images, labels, torch.full_like(labels, t)).to(FAKE)


def second_task(method: str, name: str, seen: Seen, **settings: Any) -> list[str]:
    """What a step of the second task waits for; the first step copies constants, and later ones do not."""
    spec, own = benchmark(name), METHODS[method].settings_type.model_fields
    chosen = {key: value for key, value in {**SMALL, **settings}.items() if key in own}
    learner = METHODS[method](configure(name, method, chosen).settings, spec, 0, FAKE)
    learner.begin_task(0, examples := task(spec, 0, 4))
    for i, batch in enumerate(learner.draw(1)):
        learner.step(batch, 1e-3, generator_for(0, 0, i, device=FAKE))
    learner.end_task(0, examples)
    learner.begin_task(1, task(spec, 1, 8))
    for i, batch in enumerate(learner.draw(1)[:3]):
        seen.clear()
        learner.step(batch, 1e-3, generator_for(0, 1, i, device=FAKE))
    return seen.waits


@pytest.mark.parametrize("name", ["seq_cifar10", "seq_tiny_imagenet", "r_mnist"])
def test_a_step_of_co2l_never_waits(name: str) -> None:
    with fake_device() as seen:
        assert second_task("co2l", name, seen) == []


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("co2l", "icarl")])
def test_a_step_of_a_baseline_waits_only_where_it_must(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hal, "ANCHOR_STEPS", 3)
    size = 4 if method == "gss" else 20  # full, so that new examples challenge old ones
    with fake_device() as seen:
        waits = second_task(method, "r_mnist", seen, buffer_size=size)
    found = {re.sub(r".*/(\w+\.py):\d+ ([^:]*).*", r"\1 \2", wait) for wait in waits}
    assert found <= set(ALLOWED.get(method, {}))


@pytest.mark.parametrize("method", ["er", "der", "derpp"])
def test_replay_from_a_reservoir_never_waits_with_augmented_colour_images(method: str) -> None:
    with fake_device() as seen:
        assert second_task(method, "seq_cifar10", seen) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_run_gives_the_bits_of_the_cpu(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training, buffers, probes, metrics and exports: nothing of it mixes devices."""
    monkeypatch.setattr(hal, "ANCHOR_STEPS", 3)
    config, kept = short(method, probe="paper", E_0=1), Store(tmp_path / "kept")
    here, _ = finish(config, tmp_path / "here", few_digits(each=10), exports=kept)
    with fake_device():
        there = list(run(config, few_digits(each=10), Store(tmp_path / "there"), device=FAKE, exports=kept))[-1]
    assert isinstance(there, RunDone)
    assert (there.result.weights, there.result.final) == (here.weights, here.final)
