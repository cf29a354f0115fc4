"""In which order trials start: those with a new first stage come first, and no stage is trained by two trials at once.

Trials whose stage is in the making wait behind the one that makes it, its owner; if the owner ends without, the next of
them takes over. Every operation costs O(log n). The queue only orders: it reads the record and writes nothing, and it
knows nothing of Ray.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Protocol

from co2l.search.algorithms.greedy import drawing
from co2l.search.record.entries import Entry, Status
from co2l.search.running.ledger import Ledger
from co2l.search.space.plan import order
from co2l.search.space.space import Space
from co2l.search.space.trial import Segment, Trial


class Signal(Enum):
    WAIT = "wait"  # nothing can start now, but something will once an issued trial reports
    FINISHED = "finished"


WAIT, FINISHED = Signal.WAIT, Signal.FINISHED
REFUSED = 50  # trials in a row that the budget does not let finish, until no further one is looked at


class Recorded(Protocol):
    """What is read of the record."""

    @property
    def entries(self) -> Mapping[str, Entry]: ...

    def status(self, trial: Trial) -> Status: ...


class Source(Protocol):
    """Where trials come from, such as `Drawing`."""

    @property
    def left(self) -> int: ...

    def first(self) -> Iterator[Trial]: ...

    def initial(self) -> Iterator[Trial]: ...

    def next(self) -> list[Trial]: ...


class TrialQueue:
    """The trials of a search that have not ended, in the order in which they should start.

    A trial that `next` issued is announced as `stage_ready` when a stage of it is stored, and comes back by one of
    `finished`, `gave_up` and `try_again`.
    """

    def __init__(
        self,
        space: Space,
        record: Recorded,
        ledger: Ledger | None = None,
        *,
        reuse: bool = True,
        seed: int = 0,
        source: Source | None = None,
    ) -> None:
        """Its trials come from this source, or else from the space's algorithm."""
        self._space, self._record, self._reuse, self._seed = space, record, reuse, seed
        self._ledger = ledger or Ledger(reuse=reuse)
        self._exhausted = False  # nothing that is left fits into the budget
        self._rank = itertools.count()
        self._startable: list[tuple[int, Trial]] = []
        self._behind: dict[Segment, list[tuple[int, Trial]]] = defaultdict(list)  # stages -> heap of those that wait
        self._owner: dict[Segment, str] = {}  # stages -> key of the trial that makes them
        self._ready: set[Segment] = set()  # stages that are stored
        self._issued: dict[str, Trial] = {}
        self._waiting = 0
        self._drawing: Source = source or drawing(space, record.entries, seed)
        self._put(self._drawing.first())
        self._put(self._drawing.initial())

    @property
    def issued(self) -> int:
        """How many trials `next` gave out that have not come back."""
        return len(self._issued)

    @property
    def unfinished(self) -> int:
        """Trials that have not ended, and points that are still to be drawn."""
        if self._exhausted:
            return 0
        return len(self._startable) + self._waiting + len(self._issued) + self._drawing.left

    def next(self) -> Trial | Signal:
        """A trial to start now."""
        for _ in range(REFUSED if self._ledger.limited else 1):
            while not self._startable and self._waiting <= len(self._issued):
                if not (drawn := self._drawing.next()):
                    break
                self._put(drawn)
            if not self._startable:
                break
            _, trial = heapq.heappop(self._startable)
            self._issued[trial.key] = trial
            if self._affordable():
                return trial
            self._leave(trial)
        self._exhausted = self._ledger.limited and not self._issued
        return WAIT if self._issued else FINISHED

    def _affordable(self) -> bool:
        """Whether all issued trials can be finished within what is left: else they could not be selected."""
        if not self._ledger.limited:
            return True
        return sum(self._ledger.ahead(each) for each in self._issued.values()) <= self._ledger.left

    def stage_ready(self, trial: Trial, task: int) -> None:
        """The trial's stage of this task (0-based) is stored now."""
        if (segment := trial.ending(task)) is not None:
            self._release(segment)

    def finished(self, trial: Trial) -> None:
        """The trial is done, and all its stages are stored."""
        del self._issued[trial.key]
        for segment in trial.chain:
            self._release(segment)

    def gave_up(self, trial: Trial) -> None:
        """The trial ended without a result, for good."""
        self._leave(trial)

    def try_again(self, trial: Trial) -> None:
        """The trial is pending again: after all others, when the cause may have gone."""
        self._leave(trial)
        self._insert(next(self._rank), trial)

    def take_back(self, trial: Trial) -> None:
        """The trial is pending again, unless it came back already."""
        if trial.key in self._issued:
            self.try_again(trial)

    def _put(self, trials: Iterable[Trial]) -> None:
        """In the order of the plan; the longest first, as a long one at the end would leave the others idle."""
        pending: list[Trial] = []
        for trial in trials:
            status = self._record.status(trial)
            self._ledger.read(trial, self._record.entries)
            if status == "pending":
                pending.append(trial)
            elif status == "done":
                self._ready.update(trial.chain)
        if self._space.early_stop is not None:  # halving assumes that good ones come at any time
            random.Random(self._seed).shuffle(pending)
        pending.sort(key=lambda trial: -sum(trial.config.epochs))
        for trial in order(pending):
            self._insert(next(self._rank), trial)

    def _insert(self, rank: int, trial: Trial) -> None:
        """Behind the owner of the first of its stages that is in the making, or else ready to start."""
        if self._reuse:
            for stages in trial.chain:
                if stages not in self._ready and self._owner.setdefault(stages, trial.key) != trial.key:
                    heapq.heappush(self._behind[stages], (rank, trial))
                    self._waiting += 1
                    return
        heapq.heappush(self._startable, (rank, trial))

    def _release(self, stages: Segment) -> None:
        """All that waited for these stages may start."""
        self._ready.add(stages)
        self._owner.pop(stages, None)
        for rank, trial in self._behind.pop(stages, ()):
            self._waiting -= 1
            self._insert(rank, trial)

    def _leave(self, trial: Trial) -> None:
        """The trial ended early: what it has not made is left to the next that waits for it."""
        del self._issued[trial.key]
        for stages in reversed(trial.chain):
            if self._owner.get(stages) != trial.key:
                continue
            del self._owner[stages]
            if behind := self._behind.get(stages):
                self._waiting -= 1
                self._insert(*heapq.heappop(behind))
