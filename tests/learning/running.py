"""Small runs for the tests: a few epochs on the embedded digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from co2l.data.sources import data_root
from co2l.data.streams import Split, open_stream
from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS, configure
from co2l.learning.run import Result, RunDone, TaskDone, run
from co2l.learning.store import Store

QUICK = {
    **{"E_0": 2, "E_t": 1, "batch_size": 64, "probe_epochs": 2, "buffer_size": 20},
    **{"epochs": 1, "minibatch_size": 16, "gmbs": 4},
}
CPU = torch.device("cpu")


def quick(
    benchmark: str = "seq_digits",
    seed: int = 0,
    method: str = "co2l",
    split: Split | None = None,
    **settings: Any,
) -> RunConfig:
    own = METHODS[method].settings_type.model_fields
    short = {name: value for name, value in QUICK.items() if name in own}
    return configure(benchmark, method, {**short, **settings}, seed=seed, split=split)


def events_of(config: RunConfig, root: Path | str, **options: Any) -> Any:
    tasks = open_stream(config.benchmark, split=config.split, seed=config.seed, data=data_root(None))
    return run(config, tasks, Store(root), device=CPU, **options)


def finish(config: RunConfig, root: Path | str, **options: Any) -> tuple[Result, list[int]]:
    """The result, and the epochs that were trained for each task to get it."""
    trained: list[int] = []
    result = None
    for event in events_of(config, root, **options):
        if isinstance(event, TaskDone):
            trained.append(event.epochs_trained)
        elif isinstance(event, RunDone):
            result = event.result
    assert result is not None
    return result, trained
