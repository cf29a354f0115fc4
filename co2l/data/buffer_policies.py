"""Which examples a full buffer keeps: a policy picks rows of what it held followed by what is new.

Every example has a priority, and lower ones are kept. Random priorities make a policy uniform, herding ranks make it
herding. A policy needs to know nothing about the examples it dropped.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Policy = Literal["class_balanced", "task_balanced", "reservoir", "ring"]


def kept_rows(
    policy: Policy, labels: Tensor, tasks: Tensor, priorities: Tensor, size: int, generator: torch.Generator
) -> Tensor:
    """At most `size` rows in ascending order; a ring's `size` is that of the newest task alone."""
    if policy == "reservoir":
        return priorities.argsort(stable=True)[:size].sort().values
    if policy == "ring":
        newest = (tasks == tasks.max()).nonzero().squeeze(1)
        return torch.cat([(tasks != tasks.max()).nonzero().squeeze(1), newest[max(len(newest) - size, 0) :]])
    groups = _groups(tasks, labels) if policy == "class_balanced" else _groups(tasks)
    return _lowest_per_group(groups, priorities, size, generator)


def quotas(available: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """How many examples of each group are kept: `size` in all, equal up to one, never more than a group has.

    The remainder goes to groups drawn at random among those that have examples left.
    """
    level = 0
    while level < int(available.max()) and int(available.clamp(max=level + 1).sum()) <= size:
        level += 1
    granted = available.clamp(max=level)
    richer = (available > level).nonzero().squeeze(1)
    lucky = richer[torch.randperm(len(richer), generator=generator)[: size - int(granted.sum())]]
    granted[lucky] += 1
    return granted


def herding_ranks(features: Tensor, labels: Tensor, n: int) -> Tensor:
    """The rank of each example in its class's herding order (iCaRL, Algorithm 4): 0 is taken first.

    The k-th exemplar is the one that brings the mean of the first k closest to the class mean. Only the first `n` of
    a class are ranked; the others are infinitely far.
    """
    ranks = torch.full((len(labels),), torch.inf, dtype=torch.float64, device=labels.device)
    for label in labels.unique():
        rows = (labels == label).nonzero().squeeze(1)
        own = features[rows].double()
        mean, total = own.mean(0), torch.zeros_like(own[0])
        free = torch.ones(len(rows), dtype=torch.bool, device=labels.device)
        for k in range(min(n, len(rows))):
            distance = (mean - (total + own) / (k + 1)).norm(dim=1)
            best = int(distance.masked_fill(~free, torch.inf).argmin())
            ranks[rows[best]] = k
            free[best] = False
            total = total + own[best]
    return ranks


def _groups(*columns: Tensor) -> Tensor:
    """A dense index of the rows' combinations, such as (task, label): a digit in another domain is another class."""
    combinations = torch.stack(columns, dim=1).cpu()
    groups: Tensor = torch.unique(combinations, dim=0, return_inverse=True)[1]
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
