"""What a choice cost: the epochs that a search trained to make it, and how long that took."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from co2l.search.record.entries import Entry, total_cost
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


@dataclass(frozen=True)
class Choosing:
    protocol: str  # as people read it
    epochs: int  # each stage that its trials finished counts once, whichever study of the store trained it
    trained: int  # by this study itself, repeated attempts too
    hours: float  # of trials, in which it trained these

    def as_dict(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "epochs": self.epochs,
            "epochs_trained": self.trained,
            "trial_hours": self.hours,
        }


def choosing(space: Space, entries: Iterable[Entry]) -> Choosing:
    known = list(entries)
    stages: dict[Hashable, int] = {}
    for entry in known:
        stages |= finished_stages(space.trial(entry.values, entry.seed), entry)
    cost = total_cost(known)
    return Choosing(str(space.selection.protocol), sum(stages.values()), cost.epochs_trained, cost.hours)


def finished_stages(trial: Trial, entry: Entry) -> dict[Hashable, int]:
    """Their epochs, each by what tells it from those of the space's other trials."""
    return {(trial.segment(task), task): trial.config.epochs[task] for task in range(finished_tasks(trial, entry))}


def finished_tasks(trial: Trial, entry: Entry) -> int:
    """How many of its stages are known to be finished."""
    return len(trial.config.epochs) if entry.status == "done" else max(entry.rungs, default=0)
