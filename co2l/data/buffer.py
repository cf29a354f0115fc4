"""The replay buffer M: a uniform sample of the past, as un-augmented images, that never exceeds its size.

Every sample that is seen draws one random priority, and the buffer keeps the lowest. That makes each policy
uniform, lets the buffer shrink per class without a second draw, and needs no memory of what was dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from co2l.data.streams import Samples

Policy = Literal["class_balanced", "reservoir"]


@dataclass(frozen=True)
class Buffer:
    images: Tensor  # uint8 [m, C, H, W]
    labels: Tensor  # int64 [m]
    tasks: Tensor  # int64 [m], the task each sample came from
    priorities: Tensor  # float64 [m]

    @classmethod
    def empty(cls, image_shape: tuple[int, int, int], device: torch.device | str = "cpu") -> Buffer:
        nothing = torch.empty(0, dtype=torch.int64, device=device)
        return cls(
            images=torch.empty(0, *image_shape, dtype=torch.uint8, device=device),
            labels=nothing,
            tasks=nothing,
            priorities=nothing.double(),
        )

    def __len__(self) -> int:
        return len(self.labels)

    def state(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device | str = "cpu") -> Buffer:
        return cls(**{field.name: state[field.name].to(device) for field in fields(cls)})

    def take(self, task: Samples, t: int, size: int | None, policy: Policy, generator: torch.Generator) -> Buffer:
        """The buffer after task `t`: at most `size` samples (None: all) of everything seen so far."""
        device = self.labels.device
        labels = torch.cat([self.labels, task.labels.to(device)])
        tasks = torch.cat([self.tasks, torch.full((len(task),), t, device=device)])
        drawn = torch.rand(len(task), dtype=torch.float64, generator=generator)
        priorities = torch.cat([self.priorities, drawn.to(device)])
        if size is None:
            kept = torch.arange(len(labels), device=device)
        elif policy == "reservoir":
            kept = priorities.argsort(stable=True)[:size].sort().values
        else:
            kept = _lowest_per_group(_groups(labels, tasks), priorities, size, generator)
        old, new = kept[kept < len(self)], kept[kept >= len(self)] - len(self)
        images = torch.cat([self.images[old], task.gather(new.to(task.rows.device)).to(device)])
        return replace(self, images=images, labels=labels[kept], tasks=tasks[kept], priorities=priorities[kept])


def quotas(available: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """How many samples each group may keep: `size` in all, equal up to one, never more than a group has.

    Who gets the odd ones is drawn at random among the groups that still have samples to give.
    """
    level = 0
    while level < int(available.max()) and int(available.clamp(max=level + 1).sum()) <= size:
        level += 1
    granted = available.clamp(max=level)
    richer = (available > level).nonzero().squeeze(1)
    lucky = richer[torch.randperm(len(richer), generator=generator)[: size - int(granted.sum())]]
    granted[lucky] += 1
    return granted


def _groups(labels: Tensor, tasks: Tensor) -> Tensor:
    """A dense index of (task, label): the paper's classes, where a digit in another domain is another class."""
    pairs = torch.stack([tasks, labels], dim=1).cpu()
    groups: Tensor = torch.unique(pairs, dim=0, return_inverse=True)[1]
    return groups


def _lowest_per_group(groups: Tensor, priorities: Tensor, size: int, generator: torch.Generator) -> Tensor:
    available = torch.bincount(groups)
    granted = quotas(available, size, generator)
    by_priority = priorities.cpu().argsort(stable=True)
    by_group = by_priority[groups[by_priority].argsort(stable=True)]
    first = available.cumsum(0) - available
    rank = torch.arange(len(groups)) - first[groups[by_group]]
    kept = by_group[rank < granted[groups[by_group]]]
    return kept.sort().values.to(priorities.device)


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
