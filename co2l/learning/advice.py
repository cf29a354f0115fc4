"""What is likely to be regretted about a configuration, said before it trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from co2l.data.streams import TaskStream
from co2l.learning.config import RunConfig

POINTS = 0.1  # of accuracy, which people compare


@dataclass(frozen=True)
class TaskSize:
    """How many examples a task has to learn from, and how many to be evaluated on."""

    train: int
    held_out: int


def task_sizes(tasks: TaskStream) -> tuple[TaskSize, ...]:
    return tuple(TaskSize(*tasks.sizes(t)) for t in range(len(tasks)))


def advice(config: RunConfig, sizes: Sequence[TaskSize] = ()) -> list[str]:
    """A line for each doubt, the same for configurations that give the same reason; `sizes` if the data are there."""
    return [*_rates(config), *_batches(config, sizes), *_validation(config, sizes)]


def _rates(config: RunConfig) -> list[str]:
    """One epoch whose rate moves on by epochs is all at the cosine's end."""
    settings = config.settings.model_dump()
    if settings.get("schedule_by") != "epoch":
        return []
    what = {"E_0": "task 1 at eta/1000: it learns", "E_t": "later tasks at eta/1000: they learn"}
    return [
        f"{name}=1 with schedule_by=epoch trains {follows} next to nothing;"
        f" set schedule_by=step, or {name} to 2 or more"
        for name, follows in what.items()
        if settings[name] == 1
    ]


def _batches(config: RunConfig, sizes: Sequence[TaskSize]) -> list[str]:
    size = config.settings.batch_size
    small = [t for t, each in enumerate(sizes) if size > each.train]
    if not small:
        return []
    few = min(sizes[t].train for t in small)
    result = "the run will be refused" if 0 in small else "an epoch there is a single step"
    tasks = f"task {small[0] + 1}" if len(small) == 1 else f"{len(small)} of the {len(sizes)} tasks"
    return [f"batch_size={size:,} is larger than {tasks} ({few:,} examples): {result}; choose a smaller batch_size"]


def _validation(config: RunConfig, sizes: Sequence[TaskSize]) -> list[str]:
    examples = sum(each.held_out for each in sizes)
    if config.split.kind != "search" or not examples or 100 / examples <= POINTS:
        return []
    return [
        f"{examples:,} validation examples: one of them is {100 / examples:.2g} points of accuracy, so smaller"
        " differences mean nothing; raise validation.fraction or average over seeds"
    ]
