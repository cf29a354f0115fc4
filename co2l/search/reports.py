"""Plain data of a search: what a trial tells the driver, and what the record knows of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from co2l.search.document import Value
from co2l.search.space import Space

Status = Literal["pending", "running", "done", "pruned", "failed"]
Configuration = tuple[tuple[str, Value], ...]


def configuration(space: Space, values: Mapping[str, Value]) -> Configuration:
    """What is chosen as one: the values of all axes but those that the selection averages over."""
    return tuple((name, values[name]) for name in space.axes if name not in space.selection.mean_over)


@dataclass(frozen=True)
class Report:
    """After every epoch, after every task, and at the end."""

    kind: Literal["epoch", "task", "done"]
    task: int  # 0-based
    tasks: int
    epoch: int  # counted over all tasks: the step in MLflow
    metrics: Mapping[str, float]  # val/…, loss/… and lr
    epochs_trained: int = 0  # by this attempt so far
    epochs_reused: int = 0
    result: Mapping[str, Any] | None = None  # `Result.as_dict()` when the run is done

    def to_dict(self) -> dict[str, Any]:
        """Plain data for one of Ray's result dictionaries."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        result = None if self.result is None else dict(self.result)
        return {**plain, "metrics": dict(self.metrics), "result": result}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """What `to_dict` made plain; keys that Ray added are passed over."""
        return cls(**{each.name: plain[each.name] for each in fields(cls) if each.name in plain})


@dataclass(slots=True)
class Entry:
    """What the record knows of one cell."""

    trial: int
    key: str
    values: Mapping[str, Value]
    seed: int
    status: Status
    score: float | None = None  # the space's objective, once done
    result: Mapping[str, Any] | None = None
    rungs: dict[int, float] = field(default_factory=dict)  # number of finished tasks -> score
    attempts: int = 0  # those that failed
    reason: str = ""
    epochs_trained: int = 0  # these three over all attempts
    epochs_reused: int = 0
    seconds: float = 0.0

    def so_far(self) -> dict[str, Any]:
        """What the attempts came to, as it is stored."""
        names = "result", "attempts", "reason", "epochs_trained", "epochs_reused", "seconds"
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Totals:
    epochs_trained: int
    epochs_reused: int
    seconds: float


def totals(entries: Iterable[Entry]) -> Totals:
    spent = [(entry.epochs_trained, entry.epochs_reused, entry.seconds) for entry in entries]
    return Totals(sum(each[0] for each in spent), sum(each[1] for each in spent), sum(each[2] for each in spent))
