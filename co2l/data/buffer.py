"""The replay buffer M: examples of the past as un-augmented images, never more than its policy allows.

A buffer is `Examples` with priorities, on the device where it is replayed; these functions make one from another.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from co2l.data.buffer_policies import Policy, kept_rows
from co2l.data.examples import Examples


def empty(image_shape: tuple[int, int, int], device: torch.device | str = "cpu", *, logits: int = 0) -> Examples:
    """A buffer without examples; those to come have `logits` stored logits each."""
    nothing = torch.empty(0, dtype=torch.int64, device=device)
    return Examples(
        torch.empty(0, *image_shape, dtype=torch.uint8, device=device),
        labels=nothing,
        tasks=nothing,
        priorities=nothing.double(),
        logits=torch.empty(0, logits, device=device) if logits else None,
    )


def add(held: Examples, new: Examples, size: int | None, policy: Policy, generator: torch.Generator) -> Examples:
    """The buffer after `new` examples were seen, a whole task or a batch; `size` None keeps everything.

    New examples without priorities get random ones.
    """
    if new.priorities is None:
        drawn = torch.rand(len(new), dtype=torch.float64, generator=generator, device=generator.device)
        new = replace(new, priorities=drawn.to(new.device))
    if size is None:
        rows = torch.arange(len(held) + len(new), device=held.device)
    else:
        labels, tasks = torch.cat([held.labels, new.labels]), torch.cat([held.tasks, new.tasks])
        rows = kept_rows(policy, labels, tasks, torch.cat([priorities_of(held), priorities_of(new)]), size, generator)
    return pick(held, new, rows)


def pick(held: Examples, new: Examples, rows: Tensor) -> Examples:
    """The buffer that holds `rows` of the examples held followed by the new ones."""
    if held.logits is not None and new.logits is None:
        raise ValueError("this buffer stores logits with every example")
    return Examples(
        _images(held, new, rows),
        torch.cat([held.labels, new.labels])[rows],
        torch.cat([held.tasks, new.tasks])[rows],
        priorities=torch.cat([priorities_of(held), priorities_of(new)])[rows],
        logits=None if held.logits is None or new.logits is None else torch.cat([held.logits, new.logits])[rows],
    )


def _images(held: Examples, new: Examples, rows: Tensor) -> Tensor:
    """Without concatenating them: a new task may have fifty times the images that are kept."""
    if not len(held):
        return new.images_at(rows)
    if not len(new):
        return held.images_at(rows)
    m = len(held)
    return torch.where(
        (rows < m)[:, None, None, None],
        held.images_at(rows.clamp(max=m - 1)),
        new.images_at((rows - m).clamp(min=0)),
    )


def draw(held: Examples, n: int, generator: torch.Generator) -> Tensor:
    """Rows of `n` examples, or of all if there are fewer, uniformly without replacement."""
    return torch.randperm(len(held), generator=generator, device=generator.device)[:n].to(held.device)


def priorities_of(buffer: Examples) -> Tensor:
    """What the policy goes by; every buffer has them."""
    assert buffer.priorities is not None
    return buffer.priorities
