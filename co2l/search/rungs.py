"""Early stopping at task boundaries: asynchronous successive halving over the number of finished tasks.

A configuration goes on or stops as a whole: its first cell that comes to a rung decides for those with other seeds, or
other values of the axes that the selection averages over, since one that misses a cell cannot be selected. Scores
are compared at the same number of finished tasks, and for the same values of the axes that the selection names: with
a smaller buffer they are lower, and it is chosen for nevertheless. Whoever comes before `min_cells` are there, or is
among the best share `keep` of those that came so far, goes on. So the first always does, and something can be chosen.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from co2l.search.document import Value
from co2l.search.reports import Configuration, configuration
from co2l.search.space import Cell, Space
from co2l.search.study import Record

Decision = Literal["continue", "stop"]


class Rungs:
    """The decisions of one search; those that an earlier driver took are read from the record."""

    def __init__(self, space: Space, record: Record) -> None:
        self._space, self._record = space, record
        self._scores: dict[object, list[float]] = defaultdict(list)  # per rung and group, ascending
        self._decided: dict[tuple[Configuration, int], Decision] = {}
        for entry in record.entries.values():
            for finished_tasks, score in entry.rungs.items():
                stopped = entry.status == "pruned" and finished_tasks == max(entry.rungs)
                self._add(entry.values, finished_tasks, score)
                name = configuration(space, entry.values), finished_tasks
                if stopped or name not in self._decided:
                    self._decided[name] = "stop" if stopped else "continue"

    def decision(self, cell: Cell, task: int, score: float) -> Decision:
        """Whether the cell goes on after `task` (0-based), where it has this score. Asking again changes nothing."""
        rules, finished_tasks = self._space.early_stop, task + 1
        if rules is None or finished_tasks not in rules.rungs:
            return "continue"
        if finished_tasks not in self._record.entries[cell.key].rungs:
            self._record.rung(cell, finished_tasks, score)
            self._add(cell.values, finished_tasks, score)
        name = configuration(self._space, cell.values), finished_tasks
        if name not in self._decided:
            scores = self._scores[self._compared(cell.values, finished_tasks)]
            better = len(scores) - bisect.bisect_right(scores, score)
            goes_on = len(scores) < rules.min_cells or better < max(1, int(rules.keep * len(scores) + 1e-9))
            self._decided[name] = "continue" if goes_on else "stop"
        return self._decided[name]

    def _add(self, values: Mapping[str, Value], finished_tasks: int, score: float) -> None:
        bisect.insort(self._scores[self._compared(values, finished_tasks)], score)

    def _compared(self, values: Mapping[str, Value], finished_tasks: int) -> object:
        selection = self._space.selection
        return finished_tasks, tuple(values[name] for name in (*selection.per, *selection.mean_over))
