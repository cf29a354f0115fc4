"""One run of a search, and which of its stages others share."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from co2l.learning.config import RunConfig
from co2l.search.space.document import Value


class Segment(NamedTuple):
    """Stages of a trial that each of the space's other trials shares all together or not at all."""

    read: tuple[object, ...]  # what tells them from others: all that differs in what they and those before them read
    stages: range


@dataclass(frozen=True)
class Trial:
    """One run of a search: a value for every axis, and a seed."""

    values: Mapping[str, Value]
    config: RunConfig
    chain: tuple[Segment, ...]  # trials that are only evaluated in another way have the same

    @property
    def seed(self) -> int:
        return self.config.seed

    def segment(self, task: int) -> Segment:
        """The one that this task (0-based) belongs to."""
        return next(segment for segment in self.chain if task in segment.stages)

    def ending(self, task: int) -> Segment | None:
        """The segment that is whole after this task, if one is."""
        return next((segment for segment in self.chain if segment.stages[-1] == task), None)

    @functools.cached_property
    def key(self) -> str:
        return self.config.key

    @property
    def group(self) -> tuple[tuple[str, Value], ...]:
        """Its values, whatever the seed."""
        return tuple(self.values.items())
