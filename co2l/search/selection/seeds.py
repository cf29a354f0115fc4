"""What the seeds of a configuration came to: mean and standard deviation of its test accuracy."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from co2l.learning.metrics import probe_title, reported
from co2l.search.record.entries import Entry
from co2l.search.space.document import Value
from co2l.search.space.naming import named, shortened
from co2l.search.space.space import Space


@dataclass(frozen=True)
class SeedSummary:
    """What the seeds of one configuration came to."""

    values: Mapping[str, Value]  # of the axes
    seeds: tuple[int, ...]  # those with a result
    accuracies: Mapping[str, tuple[float, ...]]  # in percent per scenario, and the "score", for each seed
    probe: str = ""  # who measured them, as people read it

    @property
    def name(self) -> str:
        return named(shortened(self.values, {}))

    def mean(self, scenario: str) -> float:
        return statistics.fmean(self.accuracies[scenario])

    def std(self, scenario: str) -> float | None:
        """The sample standard deviation; one seed has none."""
        return statistics.stdev(self.accuracies[scenario]) if len(self.seeds) > 1 else None

    def shown(self, scenario: str) -> str:
        std = self.std(scenario)
        return f"{self.mean(scenario):.2f}" + ("" if std is None else f" ± {std:.2f}")


def summarise_seeds(space: Space, entries: Iterable[Entry]) -> list[SeedSummary]:
    """The configurations that have a result for at least one of the space's seeds, in the order of the space."""
    results = {entry.key: entry.result for entry in entries if entry.result is not None}
    by_values: dict[tuple[tuple[str, Value], ...], dict[int, Mapping[str, Any]]] = {}
    for trial in space.trials():
        if trial.key in results:
            by_values.setdefault(trial.group, {})[trial.seed] = results[trial.key]
    rows = []
    for group, found in by_values.items():
        each = [reported(result) for result in found.values()]
        accuracies = {name: tuple(accuracy[name] for accuracy in each) for name in each[0]}
        accuracies["score"] = tuple(result["score"] for result in found.values())
        probe = probe_title(next(iter(found.values())), "final")
        rows.append(SeedSummary(dict(group), tuple(found), accuracies, probe))
    return rows
