"""The learning rate: linear warm-up, then a cosine, restarted at every task (appendix A.4); or a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

FLOOR = 1e-3  # the cosine ends at η/1000, as in the released code


@dataclass(frozen=True)
class Constant:
    """The baselines' rate."""

    eta: float
    epochs: int

    def lr(self, _epoch: int, _step: int, _steps: int) -> float:
        return self.eta


@dataclass(frozen=True)
class Schedule:
    eta: float
    epochs: int
    warmup_epochs: int = 0
    warmup_from: float = 0.01
    resolution: Literal["epoch", "step"] = "epoch"

    def lr(self, epoch: int, step: int, steps: int) -> float:
        """The rate of batch `step` (0-based, of `steps`) in `epoch` (1-based)."""
        # A warm-up longer than half a task would end on the cosine's floor and learn nothing.
        warmup = min(self.warmup_epochs, self.epochs // 2)
        if epoch <= warmup:
            done = (epoch - 1 + step / steps) / warmup
            return self.warmup_from + done * (self._cosine(warmup) - self.warmup_from)
        return self._cosine(epoch if self.resolution == "epoch" else epoch - 1 + step / steps)

    def _cosine(self, epoch: float) -> float:
        floor = self.eta * FLOOR
        return floor + (self.eta - floor) * (1 + math.cos(math.pi * epoch / self.epochs)) / 2
