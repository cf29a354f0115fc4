"""An evaluation: chosen configurations with several seeds each, trained on all training data, judged on test data.

It is a space like any other, and so the same service runs it. Only `co2l.evaluate` makes one: a file that is read as
a space to be searched never becomes an evaluation.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.results import Chosen
from co2l.search.document import VARIANT, Document, Value
from co2l.search.reports import Entry
from co2l.search.space import Space, parse

_OF_A_SEARCH = {"seeds", "validation", "objective", "selection", "algorithm", "samples", "early_stop"}


class Evaluation(Space):
    @functools.cached_property
    def split(self) -> Split:
        """All training samples, judged on the test samples."""
        return Split("evaluation")

    def canonical(self) -> dict[str, Any]:
        """What its results depend on. More seeds continue an evaluation."""
        plain = super().canonical()
        return {"kind": "evaluation", **{name: plain[name] for name in plain if name not in _OF_A_SEARCH}}


def of_space(space: Space, seeds: int) -> Evaluation:
    """Every cell of the space's grid, with the seeds 0 to `seeds` - 1 instead of its own."""
    kept = {name: getattr(space, name) for name in Document.model_fields if name not in _OF_A_SEARCH}
    return parse({**kept, "seeds": list(range(seeds))}, space.source, Evaluation)


def of_configurations(chosen: Sequence[Chosen], seeds: int, source: str) -> Evaluation:
    """Each as a variant, named by what it was chosen for."""
    if len({(each.benchmark, each.method) for each in chosen}) != 1:
        mixed = sorted({f"{each.method} on {each.benchmark}" for each in chosen})
        fix = "evaluate each in a file of its own"
        raise Co2lError(f"mixed configurations: {', '.join(mixed) or 'none'}", where=source, fix=fix)
    first, alone = chosen[0], len(chosen) == 1
    common = {
        name: value
        for name, value in first.settings.items()
        if all(name in each.settings and each.settings[name] == value for each in chosen)
    }
    variants: dict[str, dict[str, Any]] = {}
    for i, each in enumerate(chosen):
        name = ", ".join(f"{axis}={value}" for axis, value in each.group.items())
        name = name or ("chosen" if alone else f"chosen {i + 1}")
        variants[name] = {setting: value for setting, value in each.settings.items() if setting not in common}
    if len(variants) < len(chosen):
        raise Co2lError("two configurations were chosen for the same", where=source, fix="remove one of them")
    document = {"benchmark": first.benchmark, "method": first.method, "settings": common, "variants": variants}
    return parse({**document, "seeds": list(range(seeds))}, source, Evaluation)


@dataclass(frozen=True)
class OverSeeds:
    """What the seeds of one configuration came to."""

    values: Mapping[str, Value]  # of the axes
    seeds: tuple[int, ...]  # those with a result
    accuracies: Mapping[str, tuple[float, ...]]  # in percent per scenario, and their mean as "score", for each seed

    @property
    def name(self) -> str:
        axes = {name: value for name, value in self.values.items() if name != VARIANT}
        return ", ".join([*map(str, filter(None, [self.values.get(VARIANT)])), *(f"{k}={v}" for k, v in axes.items())])

    def mean(self, scenario: str) -> float:
        return statistics.fmean(self.accuracies[scenario])

    def std(self, scenario: str) -> float | None:
        """The sample's standard deviation; one seed has none."""
        return statistics.stdev(self.accuracies[scenario]) if len(self.seeds) > 1 else None

    def shown(self, scenario: str) -> str:
        std = self.std(scenario)
        return f"{self.mean(scenario):.2f}" + ("" if std is None else f" ± {std:.2f}")


def over_seeds(space: Space, entries: Iterable[Entry]) -> list[OverSeeds]:
    """The configurations that have a result for one of the space's seeds at least, in the order of the space."""
    results = {entry.key: entry.result for entry in entries if entry.result is not None}
    by_values: dict[tuple[tuple[str, Value], ...], dict[int, Mapping[str, Any]]] = {}
    for cell in space.cells():
        if cell.key in results:
            by_values.setdefault(cell.group, {})[cell.seed] = results[cell.key]
    rows = []
    for group, found in by_values.items():
        names = next(iter(found.values()))["average"]
        accuracies = {name: tuple(result["average"][name] for result in found.values()) for name in names}
        accuracies["score"] = tuple(result["score"] for result in found.values())
        rows.append(OverSeeds(dict(group), tuple(found), accuracies))
    return rows
