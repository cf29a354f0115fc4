"""The replay buffer M: samples of the past as un-augmented images, never more than its policy allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from co2l.data.buffer_policies import Policy, kept_rows
from co2l.data.streams import Samples


@dataclass(frozen=True)
class Buffer:
    images: Tensor  # uint8 [m, C, H, W]
    labels: Tensor  # int64 [m]
    tasks: Tensor  # int64 [m], the task each sample came from
    priorities: Tensor  # float64 [m], what its policy goes by
    logits: Tensor | None = None  # float32 [m, classes], for methods that hold on to past answers

    @classmethod
    def empty(cls, image_shape: tuple[int, int, int], device: torch.device | str = "cpu", *, logits: int = 0) -> Buffer:
        """Without samples; those to come have `logits` stored answers each."""
        nothing = torch.empty(0, dtype=torch.int64, device=device)
        return cls(
            images=torch.empty(0, *image_shape, dtype=torch.uint8, device=device),
            labels=nothing,
            tasks=nothing,
            priorities=nothing.double(),
            logits=torch.empty(0, logits, device=device) if logits else None,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def state(self) -> dict[str, Tensor]:
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in columns.items() if column is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device | str = "cpu") -> Buffer:
        return cls(**{name: column.to(device) for name, column in state.items()})

    def take(
        self,
        new: Samples,
        t: int,
        size: int | None,
        policy: Policy,
        generator: torch.Generator,
        *,
        priorities: Tensor | None = None,
        logits: Tensor | None = None,
    ) -> Buffer:
        """The buffer after samples of task `t` were seen, whole or batch by batch; `size` None keeps everything.

        Priorities are drawn at random unless given.
        """
        if priorities is None:
            priorities = torch.rand(len(new), dtype=torch.float64, generator=generator, device=generator.device)
        priorities = torch.cat([self.priorities, priorities.to(self.labels.device)])
        labels = torch.cat([self.labels, new.labels.to(self.labels.device)])
        tasks = torch.cat([self.tasks, torch.full_like(new.labels, t, device=self.labels.device)])
        if size is None:
            rows = torch.arange(len(labels), device=labels.device)
        else:
            rows = kept_rows(policy, labels, tasks, priorities, size, generator)
        return self.choose(rows, new, t, priorities, logits=logits)

    def choose(self, rows: Tensor, new: Samples, t: int, priorities: Tensor, *, logits: Tensor | None = None) -> Buffer:
        """`rows` of this buffer's samples followed by the `new` ones of task `t`; `priorities` are of all of them."""
        device = self.labels.device
        old, added = rows < len(self), (rows - len(self)).clamp(min=0)
        images = self.images.new_empty(len(rows), *self.images.shape[1:])
        images[old] = self.images[rows[old]]
        images[~old] = new.gather(added[~old].to(new.rows.device)).to(device)
        if self.logits is not None:
            assert logits is not None, "this buffer stores an answer to every sample"
            logits = torch.cat([self.logits, logits.to(device)])[rows]
        return Buffer(
            images=images,
            labels=torch.cat([self.labels, new.labels.to(device)])[rows],
            tasks=torch.cat([self.tasks, torch.full_like(new.labels, t, device=device)])[rows],
            priorities=priorities[rows],
            logits=logits,
        )

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Rows of `n` samples, or of all if there are fewer, uniformly without replacement."""
        return torch.randperm(len(self), generator=generator, device=generator.device)[:n].to(self.labels.device)


class Batch(NamedTuple):
    images: Tensor  # uint8 [n, C, H, W]
    labels: Tensor  # int64 [n]
    tasks: Tensor  # int64 [n]


@dataclass(frozen=True)
class Union:
    """D = {(x, y)} ∪ M: the samples of task `t`, then those of the buffer."""

    task: Samples
    t: int
    buffer: Buffer

    def __len__(self) -> int:
        return len(self.task) + len(self.buffer)

    @property
    def device(self) -> torch.device:
        return self.task.labels.device

    def labels(self) -> Tensor:
        return torch.cat([self.task.labels, self.buffer.labels])

    def tasks(self) -> Tensor:
        return torch.cat([torch.full_like(self.task.labels, self.t), self.buffer.tasks])

    def gather(self, index: Tensor) -> Batch:
        """The samples at `index` (on the CPU, so that no device is waited for), the current task's first."""
        now = index[index < len(self.task)].to(self.device)
        past = (index[index >= len(self.task)] - len(self.task)).to(self.device)
        return Batch(
            torch.cat([self.task.gather(now), self.buffer.images[past]]),
            torch.cat([self.task.labels[now], self.buffer.labels[past]]),
            torch.cat([torch.full_like(now, self.t), self.buffer.tasks[past]]),
        )
