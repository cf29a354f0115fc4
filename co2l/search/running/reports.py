"""What an attempt reports to the driver while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS
from co2l.learning.metrics import course_of

Kind = Literal["epoch", "saved", "task", "done"]
# Why an attempt ends without a result: by its own fault, which another attempt may not meet; by one that every
# attempt would meet; because the store, a disk or the network refused; because its worker can run no trial of this
# search; or with its process, as a machine that is gone
Fault = Literal["own", "hopeless", "outside", "unfit", "lost"]


@dataclass(frozen=True)
class Report:
    """After every epoch, every saved state and every task, and at the end."""

    kind: Kind
    task: int  # 0-based
    tasks: int
    epoch: int  # counted over all tasks: the step in MLflow
    metrics: Mapping[str, float]  # val_PROBE/… after a task, val/… at the end, loss/… and lr
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
        """The inverse of `to_dict`; keys that Ray added are ignored."""
        return cls(**{each.name: plain[each.name] for each in fields(cls) if each.name in plain})


def course_name(objective: str, config: RunConfig) -> str:
    """The objective as reports name it after every task, where the matrix probe measures it."""
    return course_of(objective, METHODS[config.method].matrix_probe(config.settings) or "none")
