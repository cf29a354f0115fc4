"""Short runs on a few digits: a configuration, a task stream and a run of seconds, for any method."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from co2l.data.benchmarks import Benchmark, benchmark
from co2l.data.cache import Arrays, in_memory
from co2l.data.sources import load
from co2l.data.sources.reading import Part
from co2l.data.streams import Split, TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.events import Event, Result, RunDone, TaskDone
from co2l.learning.methods import METHODS, configure
from co2l.learning.path import of_task
from co2l.learning.run import run
from co2l.learning.store import Store
from co2l.plugins import Registry

T = TypeVar("T")
CPU = torch.device("cpu")
SHORT = {
    **{"E_0": 2, "E_t": 1, "epochs": 1, "batch_size": 16, "probe_epochs": 2},
    **{"buffer_size": 20, "minibatch_size": 8, "gmbs": 4},
}
_undisturbed: dict[tuple[str, type], Result] = {}  # by the key of the run, and the class behind the name


def short(
    method: str = "co2l",
    name: str = "seq_digits",
    *,
    seed: int = 0,
    split: Split | None = None,
    until: int | None = None,
    **settings: Any,
) -> RunConfig:
    """A configuration of a few epochs; of `settings`, the method gets those that it has."""
    own = METHODS.find(method).settings_type.model_fields
    chosen = {key: value for key, value in {**SHORT, **settings}.items() if of_task(key)[0] in own}
    return configure(name, method, chosen, seed=seed, split=split, until=until)


def few_digits(
    of: str | Benchmark = "seq_digits",
    kind: type[TaskStream] = TaskStream,
    *,
    each: int = 20,
    split: Split | None = None,
    until: int | None = None,
) -> TaskStream:
    """A stream of `each` training digits of every class."""
    split = split or Split("search")
    test = _few("test", each) if split.kind == "evaluation" else None
    return kind(benchmark(of) if isinstance(of, str) else of, split, 0, _few("train", each), test, until)


def _few(part: Part, each: int) -> Arrays:
    digits = load("digits", part, Path())
    rows = torch.cat([(digits.labels == label).nonzero().squeeze(1)[:each] for label in range(10)])
    return in_memory(digits.images[rows].numpy(), digits.labels[rows].numpy())


def start(
    config: RunConfig, root: Path | str | Store, tasks: TaskStream | None = None, **options: Any
) -> Generator[Event, None, None]:
    tasks = tasks or few_digits(config.spec, split=config.split, until=config.until)
    return run(config, tasks, root if isinstance(root, Store) else Store(str(root)), device=CPU, **options)


def finish(
    config: RunConfig, root: Path | str, tasks: TaskStream | None = None, **options: Any
) -> tuple[Result, list[int]]:
    """The result, and the epochs that were trained for each task."""
    happened = list(start(config, root, tasks, **options))
    (result,) = [event.result for event in happened if isinstance(event, RunDone)]
    return result, [event.epochs_trained for event in happened if isinstance(event, TaskDone)]


@contextmanager
def instead(registry: Registry[T], name: str, thing: T) -> Iterator[None]:
    """Inside, the name means another thing."""
    before, own = registry.find(name), name in registry.own()
    registry[name] = thing
    try:
        yield
    finally:
        if own:
            registry[name] = before
        else:
            del registry[name]


def undisturbed(method: str) -> Result:
    """A method's whole short run, made once."""
    config = short(method)
    made = config.key, METHODS[method]
    if made not in _undisturbed:
        with tempfile.TemporaryDirectory() as folder:
            _undisturbed[made] = finish(config, folder)[0]
    return _undisturbed[made]
