"""What the record knows of a trial: its state, its result, and what its attempts have cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from co2l.search.space.document import Value

Status = Literal["pending", "running", "paused", "done", "pruned", "failed"]  # the only words for a trial's state
ENDED: tuple[Status, ...] = ("done", "pruned", "failed")


@dataclass(frozen=True)
class Cost:
    """What attempts have cost; costs can be added."""

    epochs_trained: int = 0
    epochs_reused: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.epochs_trained + other.epochs_trained,
            self.epochs_reused + other.epochs_reused,
            self.seconds + other.seconds,
        )

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    def as_dict(self) -> dict[str, Any]:
        """As commands print it and MLflow shows it."""
        return {
            "epochs_trained": self.epochs_trained,
            "epochs_reused": self.epochs_reused,
            "trial_hours": self.hours,
        }


@dataclass(slots=True)
class Entry:
    """What the record knows of one trial, over all its attempts."""

    key: str
    values: Mapping[str, Value]
    seed: int
    status: Status
    score: float | None = None  # the space's objective, once done
    result: Mapping[str, Any] | None = None
    rungs: dict[int, float] = field(default_factory=dict)  # number of finished tasks -> score
    failures: int = 0
    processes_lost: int = 0  # in a row, without a new epoch
    furthest_epoch: int = 0  # that an attempt reached before its process was lost
    reason: str = ""  # why the last attempt failed
    cost: Cost = Cost()

    def so_far(self) -> dict[str, Any]:
        """What its attempts came to, as it is stored."""
        names = "result", "failures", "processes_lost", "furthest_epoch", "reason"
        return {**{name: getattr(self, name) for name in names}, "cost": asdict(self.cost)}

    def continued(self, so_far: Mapping[str, Any]) -> Self:
        """The entry with what `so_far` stored."""
        for name, value in so_far.items():
            setattr(self, name, Cost(**value) if name == "cost" else value)
        return self


def of_seeds(entries: Iterable[Entry], seeds: Collection[int]) -> list[Entry]:
    """Without those of other seeds: with the space's, what the search knows without its race."""
    return [entry for entry in entries if entry.seed in seeds]


def total_cost(entries: Iterable[Entry]) -> Cost:
    return sum((entry.cost for entry in entries), Cost())
