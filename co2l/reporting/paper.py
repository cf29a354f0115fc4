"""The numbers the paper prints, by table and row; paper.yaml has all of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Printed:
    """A mean and its standard deviation in percent, over ten seeds."""

    mean: float
    std: float


@dataclass(frozen=True)
class TableOrFigure:
    """A table or a figure of the paper."""

    name: str  # as in paper.yaml
    numbered: str  # as a reader calls it: "Table 1"
    title: str
    content: Mapping[str, Any]

    @property
    def rows(self) -> dict[str, str]:
        """The names of the rows as shown, by their keys in the values."""
        return dict(self.content["rows"])

    @property
    def buffers(self) -> tuple[int, ...]:
        return tuple(self.content["values"])

    def value(self, buffer: object, row: str, benchmark: str, scenario: str) -> Printed | None:
        """None where the paper has no number."""
        found = self.content["values"].get(buffer, {}).get(row, {}).get(benchmark, {}).get(scenario)
        return None if found is None else Printed(*found)

    def has(self, benchmark: str, scenario: str) -> bool:
        """Whether the table has this column."""
        return any(scenario in row.get(benchmark, {}) for row in self._rows())

    def is_about(self, benchmark: str) -> bool:
        """Whether the table has any column of this benchmark."""
        return any(benchmark in row for row in self._rows())

    def _rows(self) -> list[Mapping[str, Any]]:
        return [row for by_row in self.content.get("values", {}).values() for row in by_row.values()]


@dataclass(frozen=True)
class Paper:
    source: str
    seeds: int
    benchmarks: Mapping[str, str]  # the paper's names
    items: Mapping[str, TableOrFigure]

    def chosen(self, benchmark: str, method: str, buffer: object) -> dict[str, Any]:
        """The settings in Table 4; empty if it has none for these."""
        chosen = self.items["table_4"].content["chosen"]
        return dict(chosen.get(benchmark, {}).get(method, {}).get(buffer, {}))

    def tried(self, benchmark: str) -> dict[str, list[Any]]:
        """Co²L's grid of Table 5."""
        return dict(self.items["table_5"].content["tried"].get(benchmark, {}))


@functools.cache
def paper() -> Paper:
    content = yaml.safe_load(resources.files(__package__).joinpath("paper.yaml").read_text(encoding="utf-8"))
    items = {
        name: TableOrFigure(name, part["numbered"], part["title"], part)
        for name, part in content.items()
        if isinstance(part, dict) and "numbered" in part
    }
    return Paper(content["source"], content["seeds"], content["benchmarks"], items)
