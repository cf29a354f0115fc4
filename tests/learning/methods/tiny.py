"""Streams of a few digits per class, and every method's settings cut down to them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from co2l.data.benchmarks import benchmark
from co2l.data.cache import in_memory
from co2l.data.sources import load
from co2l.data.streams import Samples, Split, TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS, configure
from co2l.learning.run import Event, Result, RunDone, run
from co2l.learning.store import Store

CPU = torch.device("cpu")
SHORT = {
    **{"E_0": 2, "E_t": 1, "epochs": 1, "batch_size": 16, "probe_epochs": 2},
    **{"buffer_size": 20, "minibatch_size": 8, "gmbs": 4},
}


def config_of(method: str, name: str = "seq_digits", **settings: Any) -> RunConfig:
    own = METHODS[method].settings_type.model_fields
    return configure(name, method, {key: value for key, value in {**SHORT, **settings}.items() if key in own})


def tiny_stream(name: str = "seq_digits", kind: type[TaskStream] = TaskStream, each: int = 20) -> TaskStream:
    digits = load("digits", "train", Path())
    rows = torch.cat([(digits.labels == label).nonzero().squeeze(1)[:each] for label in range(10)])
    few = in_memory(digits.images[rows].numpy(), digits.labels[rows].numpy())
    return kind(benchmark(name), Split("search"), 0, few, None)


def events(config: RunConfig, root: Path, tasks: TaskStream | None = None) -> Generator[Event, None, None]:
    return run(config, tasks or tiny_stream(config.benchmark), Store(root), device=CPU)


def finish(config: RunConfig, root: Path, tasks: TaskStream | None = None) -> Result:
    (result,) = [event.result for event in events(config, root, tasks) if isinstance(event, RunDone)]
    return result


def begun(method: str, *, steps: int = 0, tasks: int = 1, **settings: Any) -> Any:
    """A method in the middle of its task number `tasks`, by the calls a run makes; digits without augmentation."""
    config, stream = config_of(method, augment="none", **settings), tiny_stream()
    learner: Any = METHODS[method](config.settings, stream.benchmark, 0, CPU)
    for t in range(tasks):
        if t > 0:
            learner.end_task(t - 1, stream.train(t - 1))
        learner.begin_task(t, stream.train(t))
        for i, batch in enumerate(learner.draw(1)[: steps if t == tasks - 1 else None]):
            learner.step(batch, 0.1, torch.Generator().manual_seed(100 * t + i))
    return learner


def plain(samples: Samples | Any) -> torch.Tensor:
    """The images of a task, or of a buffer, as a digit network sees them."""
    images = samples.gather(torch.arange(len(samples))) if isinstance(samples, Samples) else samples.images
    return images.float() / 255
