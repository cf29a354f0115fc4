"""A training step as a CUDA graph: recorded once per task, then replayed as one launch instead of hundreds.

No GPU has run this yet, which is why the setting that asks for it is off by default (docs/gpus.md).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Losses = dict[str, Tensor]
Step = Callable[[Tensor, Tensor, torch.Generator], Losses]
WARM_UP = 3  # steps before the recording: libraries set themselves up, and momentum comes into being

Recorded = tuple[Callable[[], None], Losses]  # what replays the step, and the tensors it writes the losses to


def record(step: Callable[[], Losses], generator: torch.Generator) -> Recorded:
    """Capture one call of `step` on the current CUDA device, without executing it."""
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        losses = step()
    return graph.replay, losses


class RepeatedStep:
    """`step` for batches of one size on one task: a graph has fixed addresses, so inputs are copied to where it reads.

    The learning rate is a tensor, and the random numbers come from one generator that takes each step's seed.
    """

    def __init__(
        self,
        step: Step,
        size: int,
        device: torch.device,
        record: Callable[[Callable[[], Losses], torch.Generator], Recorded] = record,
    ) -> None:
        self._step, self._record = step, record
        self._batch = torch.zeros(size, dtype=torch.int64, device=device)
        self._lr = torch.zeros((), device=device)
        self._generator = torch.Generator(device=device)
        self._taken = 0
        self._recorded: Recorded | None = None

    def __call__(self, batch: Tensor, lr: float, generator: torch.Generator) -> Losses:
        self._batch.copy_(batch)
        self._lr.fill_(lr)
        self._generator.manual_seed(generator.initial_seed())
        if self._taken < WARM_UP:
            self._taken += 1
            return self._once()
        if self._recorded is None:
            self._recorded = self._record(self._once, self._generator)
        replay, losses = self._recorded
        replay()
        return {name: loss.clone() for name, loss in losses.items()}  # the next step writes over them

    def _once(self) -> Losses:
        return self._step(self._batch, self._lr, self._generator)
