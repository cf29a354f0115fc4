"""Examples: images with their labels and tasks, the one container from the task stream to the training step.

The stream yields them, D = {(x, y)} ∪ M is one, the buffer M is one, a batch is one, and replay recalls one. They are
rows of a pool of images, which may be a mapped file: nothing is copied until it is gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Examples:
    pool: Tensor  # uint8 [N, C, H, W], contiguous
    labels: Tensor  # int64 [n], the class to predict
    tasks: Tensor  # int64 [n], the task each example belongs to
    rows: Tensor | None = None  # int64 [n] into the pool; None if the pool holds these examples and no others
    priorities: Tensor | None = None  # float64 [n], what a buffer's policy goes by
    logits: Tensor | None = None  # float32 [n, classes], what a network answered in the past

    def __post_init__(self) -> None:
        n = len(self.labels)
        images = self.pool if self.rows is None else self.rows
        for column in (images, self.tasks, self.priorities, self.logits):
            if column is not None and len(column) != n:
                raise ValueError(f"a column of {len(column)} does not fit {n} labels")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return self.labels.device

    @property
    def images(self) -> Tensor:
        """uint8 [n, C, H, W]; a copy if the pool holds other images too."""
        # index_select is several times faster than pool[rows]
        return self.pool if self.rows is None else self.pool.index_select(0, self.rows)

    def images_at(self, index: Tensor) -> Tensor:
        """The images of the examples `index`."""
        return self.pool.index_select(0, index if self.rows is None else self.rows[index])

    def gather(self, index: Tensor) -> Examples:
        """The examples `index`, which is on their device, with their images copied out of the pool."""
        return Examples(
            self.images_at(index),
            self.labels[index],
            self.tasks[index],
            priorities=None if self.priorities is None else self.priorities[index],
            logits=None if self.logits is None else self.logits[index],
        )

    def split(self, size: int) -> Iterator[Examples]:
        """All examples in their order, at most `size` at a time."""
        for index in torch.arange(len(self), device=self.device).split(size):
            yield self.gather(index)

    def to(self, device: torch.device | str) -> Examples:
        """The same examples on `device`; the rest of the pool stays behind."""
        if torch.device(device).type == self.device.type == "cpu":
            return self
        return Examples.from_state(self.state(), device)

    def state(self) -> dict[str, Tensor]:
        """The columns by name, to be stored."""
        optional = {"priorities": self.priorities, "logits": self.logits}
        return {
            **{"images": self.images, "labels": self.labels, "tasks": self.tasks},
            **{name: column for name, column in optional.items() if column is not None},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device | str = "cpu") -> Examples:
        columns = {name: column.to(device) for name, column in state.items()}
        return cls(columns.pop("images"), **columns)


def concatenate(parts: Sequence[Examples]) -> Examples:
    """The examples of all parts in order; priorities and logits only if every part has them.

    Parts of one pool stay rows of it, and a part without examples costs nothing. Otherwise the images are copied.
    """
    filled = [part for part in parts if len(part)] or parts[:1]
    first = filled[0]
    if len(filled) == 1:
        return first
    if all(part.pool is first.pool and part.rows is not None for part in filled):
        pool, rows = first.pool, _column(filled, "rows")
    else:
        pool, rows = torch.cat([part.images for part in filled]), None
    return Examples(
        pool,
        torch.cat([part.labels for part in filled]),
        torch.cat([part.tasks for part in filled]),
        rows,
        _column(filled, "priorities"),
        _column(filled, "logits"),
    )


def _column(parts: Sequence[Examples], name: str) -> Tensor | None:
    columns = [getattr(part, name) for part in parts]
    return None if any(column is None for column in columns) else torch.cat(columns)


def batches(order: Tensor, size: int, current: int, device: torch.device) -> list[Tensor]:
    """An epoch's order of D cut into batches of `size`, uploaded at once; in each, the current task's examples first.

    These are the first `current` of D. Sorting here, on the CPU, keeps every step free of waits for the device.
    """
    batch = torch.arange(len(order)) // size
    arranged = order[(2 * batch + (order >= current)).argsort(stable=True)]
    return list(arranged.to(device).split(size))
