"""A study for a notebook: what was selected, all trials as a data frame, and the figures of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from co2l.errors import unknown
from co2l.learning.metrics import probe_title, reported
from co2l.search.record.importance import described
from co2l.search.record.reader import StoredStudy, StudyReader
from co2l.search.selection.rule import select
from co2l.urls import sqlite_url

if TYPE_CHECKING:  # they take a second to import
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Study:
    """A study as it was when loaded, read-only."""

    def __init__(self, stored: StoredStudy) -> None:
        self._stored = stored
        self.name, self.kind, self.space = stored.name, stored.kind, stored.space

    def best(self) -> list[dict[str, Any]]:
        """What the search has selected so far, as in `selected/NAME.yaml`; empty for an evaluation."""
        if self.kind == "evaluation":
            return []
        return [each.as_dict(self.space) for each in select(self.space, self._stored.entries.values()).selected]

    def frame(self) -> DataFrame:
        """A row per trial: values of the axes, seed, status, score, accuracies in percent, cost."""
        from pandas import DataFrame

        return DataFrame(
            [
                {
                    **entry.values,
                    "seed": entry.seed,
                    "status": entry.status,
                    "score": entry.score,
                    **(reported(entry.result) if entry.result else {}),
                    **asdict(entry.cost),
                }
                for entry in self._stored.entries.values()
            ]
        )

    def importance(self) -> dict[str, float]:
        """How much each axis matters to the score (fANOVA), the largest share first; empty for too few results.

        The axes that the selection selects for are given: shares are computed for each of their values, and averaged.
        """
        return self._stored.importance()

    def figure(self, name: str) -> Figure:
        """One of "history", "importance" and "matrix" (the mean accuracy matrix of all finished trials)."""
        from co2l.reporting import figures

        kinds: dict[str, Callable[[], Figure]] = {
            "history": lambda: figures.history(list(self._stored.entries.values()), self.space.objective),
            "importance": lambda: figures.importance(self.importance(), described(self.space)),
            "matrix": lambda: figures.heat_maps(self._matrix(), self._matrix_probe()),
        }
        if name not in kinds:
            raise unknown("figure", name, kinds)
        return kinds[name]()

    def _matrix(self) -> dict[str, Any]:
        from co2l.reporting.evaluated import mean_of

        results = self._with_matrix()
        names = results[0]["matrix"] if results else {}
        return {name: mean_of([result["matrix"][name] for result in results]) for name in names}

    def _matrix_probe(self) -> str:
        return next((probe_title(result, "matrix") for result in self._with_matrix()), "")

    def _with_matrix(self) -> list[Mapping[str, Any]]:
        return [entry.result for entry in self._stored.entries.values() if entry.result and entry.result["matrix"]]


def load_study(root: str | Path, name: str) -> Study:
    """The study `name` below the folder `root`, or in a storage if `root` is a URL such as postgresql://…"""
    storage = str(root) if "://" in str(root) else sqlite_url(Path(root).expanduser().absolute() / "study.db")
    return Study(StudyReader(storage).study(name))
