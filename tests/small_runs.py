"""Short runs on a few digits: settings, a task stream, a run, and a method in the middle of a task."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.cache import Arrays, in_memory
from co2l.data.examples import Examples
from co2l.data.sources import load
from co2l.data.streams import Split, TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.encoders import Encoder
from co2l.learning.events import Event, Result, RunDone, TaskDone
from co2l.learning.methods import METHODS, configure
from co2l.learning.run import run
from co2l.learning.store import Store

CPU = torch.device("cpu")
SHORT = {
    **{"E_0": 2, "E_t": 1, "epochs": 1, "batch_size": 16, "probe_epochs": 2},
    **{"buffer_size": 20, "minibatch_size": 8, "gmbs": 4},
}


def short(
    method: str = "co2l", name: str = "seq_digits", *, seed: int = 0, split: Split | None = None, **settings: Any
) -> RunConfig:
    """A configuration of a few epochs; of `settings`, the method gets those that it has."""
    assert settings.keys() <= {name for kind in METHODS.values() for name in kind.settings_type.model_fields}
    own = METHODS[method].settings_type.model_fields
    chosen = {key: value for key, value in {**SHORT, **settings}.items() if key in own}
    return configure(name, method, chosen, seed=seed, split=split)


def few_digits(
    of: str | Benchmark = "seq_digits",
    kind: type[TaskStream] = TaskStream,
    *,
    each: int = 20,
    split: Split | None = None,
) -> TaskStream:
    """A stream of `each` training digits of every class."""
    split = split or Split("search")
    test = _few("test", each) if split.kind == "evaluation" else None
    return kind(benchmark(of) if isinstance(of, str) else of, split, 0, _few("train", each), test)


def _few(part: Any, each: int) -> Arrays:
    digits = load("digits", part, Path())
    rows = torch.cat([(digits.labels == label).nonzero().squeeze(1)[:each] for label in range(10)])
    return in_memory(digits.images[rows].numpy(), digits.labels[rows].numpy())


def start(
    config: RunConfig, root: Path | str | Store, tasks: TaskStream | None = None, **options: Any
) -> Generator[Event, None, None]:
    tasks = tasks or few_digits(config.spec, split=config.split)
    return run(config, tasks, root if isinstance(root, Store) else Store(root), device=CPU, **options)


def finish(
    config: RunConfig, root: Path | str, tasks: TaskStream | None = None, **options: Any
) -> tuple[Result, list[int]]:
    """The result, and the epochs that were trained for each task."""
    happened = list(start(config, root, tasks, **options))
    (result,) = [event.result for event in happened if isinstance(event, RunDone)]
    return result, [event.epochs_trained for event in happened if isinstance(event, TaskDone)]


def begun(method: str, *, steps: int = 0, tasks: int = 1, each: int = 20, double: bool = False, **settings: Any) -> Any:
    """A method `steps` steps into its task number `tasks`, by the calls a run makes; digits without augmentation.

    A baseline may compute in float64, so that a formula can be compared to the last digits.
    """
    config, stream = short(method, augment="none", **settings), few_digits(each=each)
    learner: Any = METHODS[method](config.settings, stream.benchmark, 0, CPU)
    if double:
        in_float64(learner.network)
        if hasattr(learner, "phi"):
            learner.phi = learner.phi.double()
        if getattr(learner, "stores_logits", False):
            learner.memory = replace(learner.memory, logits=learner.memory.logits.double())
    for t in range(tasks):
        if t > 0:
            learner.end_task(t - 1, stream.train(t - 1))
        learner.begin_task(t, stream.train(t))
        for i, batch in enumerate(learner.draw(1)[: steps if t == tasks - 1 else None]):
            learner.step(batch, 0.1, torch.Generator().manual_seed(100 * t + i))
    return learner


def in_float64(network: nn.Module) -> None:
    """Its parameters, and every image that its encoder is shown."""
    network.double()
    for part in network.modules():
        if isinstance(part, Encoder):
            part.register_forward_pre_hook(lambda _, images: (images[0].double(),))


def plain(examples: Examples) -> Tensor:
    """The images as a network for digits sees them without augmentation."""
    return examples.images.float() / 255
