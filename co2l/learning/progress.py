"""How far a run is, how fast it learns and how long it will still take, from its events.

Nothing here waits for the device: losses stay where they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from co2l.learning.events import EpochDone, Evaluating, Event, RunDone, StepDone


@dataclass(frozen=True)
class Position:
    """Where a run is, for people to see: nothing is decided by it."""

    task: int  # 0-based
    tasks: int
    epoch: int  # of this task, from 1
    epochs: int
    step: int
    steps: int
    part_done: float  # of all epochs, those from the store included
    views_per_second: float = 0.0
    seconds_left: float | None = None  # unknown until something was trained here
    probe: str = ""  # that is being trained and evaluated, if one is

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Position:
        return cls(**plain)


class Meter:
    """Sees every event of a run; asked for the position, it measures the speed since it was last asked."""

    def __init__(self, epochs: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._epochs, self._total, self._clock = epochs, sum(epochs), clock
        self._event: Event | None = None
        self._began = self._asked = clock()
        self._trained = 0.0  # epochs, by this process: what the store had took no time
        self._views = 0

    def see(self, event: Event) -> None:
        self._event = event
        if isinstance(event, StepDone):
            self._views += event.views
            self._trained += 1 / event.steps

    def position(self) -> Position | None:
        """None before the first event and after the last."""
        now, event = self._clock(), self._event
        speed = self._views / max(now - self._asked, 1e-9)
        self._asked, self._views = now, 0
        if event is None or isinstance(event, RunDone):
            return None
        epochs = self._epochs[event.task]
        epoch = event.epoch if isinstance(event, StepDone | EpochDone) else epochs
        step, steps = (event.step, event.steps) if isinstance(event, StepDone) else (1, 1)
        done = sum(self._epochs[: event.task]) + max(epoch - 1, 0) + (step / steps if epochs else 0)
        return Position(
            task=event.task,
            tasks=len(self._epochs),
            epoch=epoch,
            epochs=epochs,
            step=step,
            steps=steps,
            part_done=done / max(self._total, 1),
            views_per_second=speed if isinstance(event, StepDone | EpochDone) else 0.0,
            seconds_left=(self._total - done) * (now - self._began) / self._trained if self._trained else None,
            probe=event.probe if isinstance(event, Evaluating) else "",
        )
