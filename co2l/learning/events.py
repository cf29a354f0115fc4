"""What a run reports as it goes: steps, epochs, saved states, tasks, and finally its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from co2l.learning import metrics


@dataclass(frozen=True)
class StepDone:
    task: int  # 0-based, as everywhere in the code; shown to people from 1
    epoch: int
    epochs: int
    step: int
    steps: int
    views: int
    losses: Mapping[str, Tensor]  # still on the device: reading one waits for it


@dataclass(frozen=True)
class EpochDone:
    task: int
    epoch: int
    epochs: int
    losses: Mapping[str, float]
    lr: float


@dataclass(frozen=True)
class StateSaved:
    task: int
    epoch: int  # the last one that the state holds to its end


@dataclass(frozen=True)
class Evaluating:
    task: int
    probe: str


@dataclass(frozen=True)
class TaskDone:
    task: int
    row: metrics.Row | None  # held-out accuracies, unless the matrix was switched off
    epochs_trained: int  # 0 when the stage came from the store
    dead: float | None = None  # percent of the encoder's features, if measured


@dataclass(frozen=True)
class Result:
    """What a run measured: the same for the same configuration and data, however it was computed."""

    final: metrics.Row  # accuracies after the last task, by the method's final probe
    matrix: Mapping[str, metrics.Matrix]  # per scenario; empty if it was switched off
    weights: str  # SHA-256 of the final state
    probe: str  # behind `final`, as the method names it
    matrix_probe: str | None = None  # behind `matrix`, and so behind forgetting and backward transfer
    exports: Mapping[str, str] = field(default_factory=dict)  # keys in the store `exports`, by kind
    dead: tuple[float | None, ...] = ()  # percent of the encoder's features after each task; None if not measured

    @property
    def score(self) -> float:
        return metrics.score(self.final)

    def as_dict(self) -> dict[str, Any]:
        return {
            "score": self.score,
            "average": {name: metrics.mean(accuracy) for name, accuracy in self.final.items()},
            "final": self.final,
            "matrix": self.matrix,
            "forgetting": {name: metrics.forgetting(m) for name, m in self.matrix.items()},
            "backward_transfer": {name: metrics.backward_transfer(m) for name, m in self.matrix.items()},
            "weights": self.weights,
            "probes": {"final": self.probe, "matrix": self.matrix_probe},
            **({"exports": dict(self.exports)} if self.exports else {}),
            **({"dead_features": list(self.dead)} if self.dead else {}),
        }


@dataclass(frozen=True)
class RunDone:
    result: Result


Event = StepDone | EpochDone | StateSaved | Evaluating | TaskDone | RunDone
