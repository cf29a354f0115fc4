"""What a study took from an earlier one when it was begun: it is noted, so that the earlier one may change or go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from co2l.search.space.document import Value
from co2l.search.space.naming import named, shortened
from co2l.search.space.space import Space

S = TypeVar("S", bound=Space)


@dataclass(frozen=True)
class Earlier:
    study: str
    points: tuple[Mapping[str, Value], ...]  # as `start` takes them

    @classmethod
    def noted(cls, plain: Mapping[str, Any]) -> Earlier:
        return cls(plain["study"], tuple(plain["points"]))

    def as_dict(self) -> dict[str, Any]:
        return {"study": self.study, "points": [dict(point) for point in self.points]}

    def leading(self, space: S) -> S:
        """The space with these points tried first, after those that its `start` lists."""
        return space.replace(start=[*space.start, *map(dict, self.points)], where=f"the points of '{self.study}'")

    def __str__(self) -> str:
        points = "; ".join(named(shortened(point, {}), separator=" ") for point in self.points)
        return f"{len(self.points)} point{'s' if len(self.points) > 1 else ''} of '{self.study}': {points}"
