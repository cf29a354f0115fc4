"""Which cell is next: those whose first stage is new come first, and no stage is trained by two cells at once.

Cells whose stage is in the making wait behind the one that makes it, its owner; if the owner ends without, the next of
them takes over. Every operation costs O(log n). Nothing here knows Ray: the same queue drives a simulated search.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from co2l.data.benchmarks import BENCHMARKS
from co2l.search.document import Range, Value
from co2l.search.plan import epochs_of, order
from co2l.search.reports import Configuration, Report, configuration
from co2l.search.space import Cell, Space
from co2l.search.study import Record
from co2l.search.tpe import suggest

REPEATS = 20  # points in a row that were tried before, until one is picked among the others


class Signal(Enum):
    WAIT = "wait"  # nothing can start now, but something will once a running cell reports
    FINISHED = "finished"


WAIT, FINISHED = Signal.WAIT, Signal.FINISHED


class CellQueue:
    """The cells of a search that have not ended, in the order in which they should start.

    A cell that `next` gave out is told `started`, then perhaps `stage_ready`, and ends by one of `finished`,
    `failed`, `lost`, `pruned` or `interrupted`; the record hears of it from here.
    """

    def __init__(self, space: Space, record: Record, *, reuse: bool = True, seed: int = 0) -> None:
        self.space, self.record, self.reuse, self.seed = space, record, reuse, seed
        self._tasks = BENCHMARKS[space.benchmark].tasks
        self._rank = itertools.count()
        self._startable: list[tuple[int, Cell]] = []
        self._behind: dict[Hashable, list[tuple[int, Cell]]] = defaultdict(list)  # stages -> heap of those that wait
        self._owner: dict[Hashable, str] = {}  # stages -> key of the cell that makes them
        self._ready: set[Hashable] = set()  # stages that are stored
        self._running: dict[str, Cell] = {}
        self._waiting = 0
        self._samples = _limit(space)
        self._tried: dict[Configuration, None] = {}
        for entry in record.entries.values():
            self._tried[configuration(space, entry.values)] = None
        self._put(self._initial())

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def unfinished(self) -> int:
        """Cells that have not ended, and for TPE the samples that are still to be drawn."""
        undrawn = max(0, self._samples - len(self._tried)) if self.space.algorithm == "tpe" else 0
        return len(self._startable) + self._waiting + len(self._running) + undrawn

    def next(self) -> Cell | Signal:
        """A cell to start now."""
        while not self._startable and self._waiting <= len(self._running):
            if not (drawn := self._draw()):
                break
            self._put(drawn)
        if self._startable:
            _, cell = heapq.heappop(self._startable)
            self._running[cell.key] = cell
            return cell
        return WAIT if self._running else FINISHED

    def started(self, cell: Cell) -> None:
        self.record.begin(cell)

    def stage_ready(self, cell: Cell) -> None:
        """The cell's first stage is stored now."""
        self._release(_first(cell))

    def finished(
        self, cell: Cell, result: Mapping[str, Any], epochs_trained: int, epochs_reused: int, seconds: float
    ) -> None:
        self.record.finish(cell, result, epochs_trained, epochs_reused, seconds)
        del self._running[cell.key]
        self._release(_first(cell))
        self._release(_all(cell))

    def pruned(self, cell: Cell, report: Report, seconds: float = 0.0) -> None:
        self.record.prune(cell, report, seconds)
        self._leave(cell)

    def failed(
        self, cell: Cell, reason: str, epochs_trained: int = 0, epochs_reused: int = 0, seconds: float = 0.0
    ) -> bool:
        """Whether the cell will be tried again: after all others, when the cause may have gone."""
        if self.record.status(cell) == "pending":  # it broke before it started
            self.record.begin(cell)
        return self._again(cell, self.record.fail(cell, reason, epochs_trained, epochs_reused, seconds))

    def lost(
        self, cell: Cell, epoch: int, epochs_trained: int = 0, epochs_reused: int = 0, seconds: float = 0.0
    ) -> bool:
        """The cell's process is gone, after this epoch. Whether the cell will be tried again."""
        return self._again(cell, self.record.lose(cell, epoch, epochs_trained, epochs_reused, seconds))

    def interrupted(self, cell: Cell, epochs_trained: int = 0, epochs_reused: int = 0, seconds: float = 0.0) -> None:
        """The cell was stopped from outside and is pending again."""
        if self.record.status(cell) == "running":
            self.record.interrupt(cell, epochs_trained, epochs_reused, seconds)
        self._again(cell, True)

    def _again(self, cell: Cell, again: bool) -> bool:
        self._leave(cell)
        if again:
            self._place(next(self._rank), cell)
        return again

    def _put(self, cells: Iterable[Cell]) -> None:
        """In the order of the plan; the longest first, as a long one at the end would leave the others idle."""
        pending: list[Cell] = []
        for cell in cells:
            status = self.record.status(cell)
            if status == "pending":
                pending.append(cell)
            elif status == "done":
                self._ready |= {_first(cell), _all(cell)}
        if self.space.early_stop is not None:  # halving assumes that good ones come at any time
            random.Random(self.seed).shuffle(pending)
        pending.sort(key=lambda cell: -sum(epochs_of(cell, self._tasks)))
        for cell in order(pending):
            self._place(next(self._rank), cell)

    def _place(self, rank: int, cell: Cell) -> None:
        """Behind the owner of the first of its stages that is in the making, or else ready to start."""
        if self.reuse:
            for stages in (_first(cell), _all(cell)):
                if stages not in self._ready and self._owner.setdefault(stages, cell.key) != cell.key:
                    heapq.heappush(self._behind[stages], (rank, cell))
                    self._waiting += 1
                    return
        heapq.heappush(self._startable, (rank, cell))

    def _release(self, stages: Hashable) -> None:
        """All who waited for these stages may go."""
        self._ready.add(stages)
        self._owner.pop(stages, None)
        for rank, cell in self._behind.pop(stages, ()):
            self._waiting -= 1
            self._place(rank, cell)

    def _leave(self, cell: Cell) -> None:
        """The cell ended early: what it has not made is left to the next who waits for it."""
        del self._running[cell.key]
        for stages in (_all(cell), _first(cell)):
            if self._owner.get(stages) != cell.key:
                continue
            del self._owner[stages]
            if behind := self._behind.get(stages):
                self._waiting -= 1
                self._place(*heapq.heappop(behind))

    def _initial(self) -> Iterator[Cell]:
        """The grid; or what was drawn before, and for a random search all that is drawn."""
        if self.space.algorithm == "grid":
            yield from self.space.cells()
            return
        for point in list(self._tried):
            yield from self.space.cells_of(dict(point))
        if self.space.algorithm == "random":
            rng = random.Random(self.seed)
            points = iter(lambda: self.space.draw(rng), None)
            while drawn := self._untried(points):
                yield from drawn

    def _draw(self) -> list[Cell]:
        if self.space.algorithm != "tpe":
            return []
        return self._untried(suggest(self.space, self.record, self.seed, self._tried))

    def _untried(self, points: Iterable[Mapping[str, Value]]) -> list[Cell]:
        """The cells of the first point that was never tried; nothing if there are enough, or no more."""
        if len(self._tried) >= self._samples:
            return []
        for point in itertools.chain(itertools.islice(points, REPEATS), self._others()):
            cells = list(self.space.cells_of(point))
            name = configuration(self.space, cells[0].values)
            if name not in self._tried:
                self._tried[name] = None
                return cells
        self._samples = len(self._tried)  # ranges of whole numbers can be exhausted too
        return []

    def _others(self) -> Iterator[Mapping[str, Value]]:
        """Points at random, then, if they can be listed, all of them in random order."""
        rng = random.Random(f"{self.seed}/{len(self._tried)}")
        for _ in range(REPEATS):
            yield self.space.draw(rng)
        axes = {name: axis for name, axis in self.space.axes.items() if name in self.space.draw(rng)}
        if not any(isinstance(axis, Range) for axis in axes.values()):
            listed = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
            rng.shuffle(listed)
            yield from listed


def _first(cell: Cell) -> Hashable:
    return "first", cell.prefix


def _all(cell: Cell) -> Hashable:
    return "all", cell.whole


def _limit(space: Space) -> int:
    """As many points as there shall be, or can be."""
    lists = [axis for name, axis in space.axes.items() if name not in space.selection.mean_over]
    points = math.prod(math.inf if isinstance(axis, Range) else len(axis) for axis in lists)
    return int(min(space.samples or 0, points))
