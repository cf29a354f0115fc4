"""Which trials stop before they are finished: the interface that a rule for that fills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from co2l.search.algorithms.halving import Rungs
from co2l.search.record.entries import Entry
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

Decision = Literal["continue", "stop", "pause"]  # a trial that pauses may continue later


class EarlyStopper(Protocol):
    """Decides at the ends of tasks. What it decided before a restart it finds again in the record's entries."""

    def decide(self, trial: Trial, finished_tasks: int, score: float) -> Decision:
        """Whether the trial continues, with this score after so many tasks. Asking again changes nothing."""


class NoStopper:
    """Every trial runs to its end."""

    def decide(self, trial: Trial, finished_tasks: int, score: float) -> Decision:
        del trial, finished_tasks, score
        return "continue"


def early_stopper(space: Space, entries: Iterable[Entry]) -> EarlyStopper:
    """The rule that a space asks for."""
    return NoStopper() if space.early_stop is None else Rungs(space, space.early_stop, entries)
