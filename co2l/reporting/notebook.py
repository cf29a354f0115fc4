"""A study for a notebook: what was selected, all cells as a data frame, and the figures of a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from co2l.errors import unknown
from co2l.search.archive import Archive, StoredStudy

if TYPE_CHECKING:  # they take a second to import
    from matplotlib.figure import Figure
    from pandas import DataFrame


class Study:
    """Read only, as it was when it was loaded."""

    def __init__(self, stored: StoredStudy) -> None:
        self._stored = stored
        self.name, self.kind, self.space = stored.name, stored.kind, stored.space

    def best(self) -> list[dict[str, Any]]:
        """What the search selected so far, as `selected/NAME.yaml` has it; of an evaluation there is none."""
        if self.kind == "evaluation":
            return []
        return [each.as_dict(self.space) for each in self._stored.choice().selected]

    def frame(self) -> DataFrame:
        """A row per cell: the values of its axes, seed, status, score, accuracies in percent, price."""
        from pandas import DataFrame

        return DataFrame(
            [
                {
                    **entry.values,
                    "seed": entry.seed,
                    "status": entry.status,
                    "score": entry.score,
                    **(entry.result["average"] if entry.result else {}),
                    "epochs_trained": entry.epochs_trained,
                    "epochs_reused": entry.epochs_reused,
                    "seconds": entry.seconds,
                }
                for entry in self._stored.entries.values()
            ]
        )

    def figure(self, name: str) -> Figure:
        """One of "history", "importance" and "matrix"; the last is the mean accuracy matrix of all finished cells."""
        from co2l.reporting import figures
        from co2l.reporting.searches import history

        kinds: dict[str, Callable[[], Figure]] = {
            "history": lambda: history(self._stored),
            "importance": lambda: figures.importance(self._stored.importance()),
            "matrix": lambda: figures.heat_maps(self._matrix()),
        }
        if name not in kinds:
            raise unknown("figure", name, kinds)
        return kinds[name]()

    def _matrix(self) -> dict[str, Any]:
        from co2l.reporting.evaluated import mean_of

        results = [entry.result for entry in self._stored.entries.values() if entry.result and entry.result["matrix"]]
        names = results[0]["matrix"] if results else {}
        return {name: mean_of([result["matrix"][name] for result in results]) for name in names}


def load_study(root: str | Path, name: str) -> Study:
    """The study `name` below `root`, the folder of a search, or in a storage, if that is a URL as postgresql://…"""
    storage = str(root) if "://" in str(root) else f"sqlite:///{Path(root).expanduser().absolute()}/study.db"
    return Study(Archive(storage).study(name))
