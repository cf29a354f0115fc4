"""The points of a search, each once: what its algorithm suggests and was never tried."""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from co2l.search.algorithms.registry import algorithm_of
from co2l.search.record.entries import ENDED, Entry, of_seeds
from co2l.search.space.document import Range, Value
from co2l.search.space.plan import listed_trials
from co2l.search.space.space import Configuration, Space
from co2l.search.space.trial import Trial

REPEATS = 20  # points in a row that were tried before, until one is picked among the others
Point = Mapping[str, Value]


class Drawing:
    """What is drawn depends on the space, the record's entries and the seed alone."""

    def __init__(self, space: Space, entries: Mapping[str, Entry], seed: int) -> None:
        self._space, self._entries, self._seed = space, entries, seed  # `entries` is read anew at every draw
        self._algorithm = algorithm_of(space)
        self._tried = dict.fromkeys(space.configuration(entry.values) for entry in entries.values())
        self._first = set[Configuration]()
        self._limit = 0 if self._algorithm.enumerable else _limit(space)

    @property
    def left(self) -> int:
        """How many points are still to be drawn."""
        return max(0, self._limit - len(self._tried))

    def first(self) -> Iterator[Trial]:
        """The trials of the space's starting points."""
        for point in self._space.starting_points:
            configuration = self._configuration(point)
            if self._algorithm.enumerable or configuration in self._tried or self.left:
                self._first.add(configuration)
                yield from self._take(point)

    def initial(self) -> Iterator[Trial]:
        """The others that need no further results: those drawn before, and all unless results matter."""
        if self._algorithm.enumerable:
            listed = listed_trials(self._space)
            yield from (trial for trial in listed if self._space.configuration(trial.values) not in self._first)
            return
        for configuration in [each for each in self._tried if each not in self._first]:
            yield from self._space.trials_of(dict(configuration))
        if not self._algorithm.adaptive:
            # drawn from the beginning, whatever was tried: so a killed search draws what it would have drawn
            for point in self._sequence():
                if self.left and self._configuration(point) not in self._tried:
                    yield from self._take(point)
            self._limit = len(self._tried)

    def next(self) -> list[Trial]:
        """The trials of one more point; none if there are enough, or no others."""
        if not self.left:
            return []
        known: Iterable[Entry] = self._entries.values()
        if self._space.selection.race is not None:
            known = of_seeds(known, self._space.seeds)
        point = self._untried(self._algorithm.suggest(known, self._tried, self._seed), self._tried)
        if point is None:
            self._limit = len(self._tried)  # even a range can be exhausted, if it is one of whole numbers
            return []
        return self._take(point)

    def _take(self, point: Point) -> list[Trial]:
        self._tried[self._configuration(point)] = None
        return list(self._space.trials_of(point))

    def _sequence(self) -> Iterator[Point]:
        points = self._algorithm.suggest((), (), self._seed)
        drawn: dict[Configuration, None] = {}
        while len(drawn) < self._limit and (point := self._untried(points, drawn)) is not None:
            drawn[self._configuration(point)] = None
            yield point

    def _untried(self, points: Iterable[Point], tried: Mapping[Configuration, None]) -> Point | None:
        every = itertools.chain(itertools.islice(points, REPEATS), self._others(len(tried)))
        return next((point for point in every if self._configuration(point) not in tried), None)

    def _configuration(self, point: Point) -> Configuration:
        """As the settings take its values."""
        return self._space.configuration(next(self._space.trials_of(point)).values)

    def _others(self, tried: int) -> Iterator[Point]:
        """Points at random, then, if they can be listed, all of them in random order."""
        rng = random.Random(f"{self._seed}/{tried}")
        for _ in range(REPEATS):
            yield self._space.draw(rng)
        names = self._space.drawn_axes
        if not any(isinstance(self._space.axes[name], Range) for name in names):
            points = [dict(zip(names, each, strict=True)) for each in itertools.product(*self._space.lists(names))]
            rng.shuffle(points)
            yield from points


class InTurns(ABC):
    """Trials in the form of `Drawing` that come turn by turn: the next ones once those before have ended."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries  # read anew before every turn
        self._last: list[str] = []  # the trials of the last turn

    @property
    @abstractmethod
    def left(self) -> int:
        """How many points are still to come."""

    @abstractmethod
    def _following(self) -> list[Trial]:
        """The trials of the next turn; none if there is no other."""

    def first(self) -> Iterator[Trial]:
        """Those to try before all others; none, as every one of a turn is tried."""
        return iter(())

    def initial(self) -> Iterator[Trial]:
        """The trials of all turns that are known."""
        while trials := self.next():
            yield from trials

    def next(self) -> list[Trial]:
        """The trials of the next turn; none if it is not known yet, or there is no other."""
        entries = [self._entries.get(key) for key in self._last]
        if any(entry is None or entry.status not in ENDED for entry in entries):
            return []
        trials = self._following()
        self._last = [trial.key for trial in trials]
        return trials


def _limit(space: Space) -> int:
    """As many points as are asked for, or as there are."""
    axes = [space.axes[name] for name in space.drawn_axes]
    points = math.prod(math.inf if isinstance(axis, Range) else len(axis) for axis in axes)
    return int(min(space.samples or 0, points))
