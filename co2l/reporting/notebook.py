"""Studies for a notebook: what was selected, all trials as a data frame, one trial, and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from co2l.errors import Co2lError, unknown
from co2l.files import user_path
from co2l.learning.metrics import probe_title, reported, scenario_title
from co2l.reporting.html_rows import html_rows
from co2l.reporting.stored_trial import StudyTrial
from co2l.reporting.summary import StudySummary, summarise
from co2l.search.record.importance import described
from co2l.search.record.reader import StoredStudy, StudyReader
from co2l.search.selection.rule import select
from co2l.search.selection.seeds import summarise_seeds
from co2l.search.space.naming import short
from co2l.urls import sqlite_url

if TYPE_CHECKING:  # they take a second to import
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from plotly.graph_objects import Figure as InteractiveFigure


class Study:
    """A study as it was when loaded, read-only."""

    def __init__(self, stored: StoredStudy) -> None:
        self._stored = stored
        self.name, self.kind, self.space = stored.name, stored.kind, stored.space
        self.earlier = stored.earlier

    def best(self) -> list[dict[str, Any]]:
        """What the search has selected so far, as in `selected/NAME.yaml`; empty for an evaluation."""
        if self.kind == "evaluation":
            return []
        return [each.as_dict(self.space) for each in select(self.space, self._stored.entries.values()).selected]

    def frame(self) -> DataFrame:
        """A row per trial: its key, values of the axes, seed, status, score, accuracies in percent, cost."""
        from pandas import DataFrame

        return DataFrame(
            [
                {
                    "trial": entry.key,
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

    def trials(self) -> list[StudyTrial]:
        """Every trial that has begun, in that order."""
        return [StudyTrial.of(self.space, entry) for entry in self._stored.entries.values()]

    def trial(self, key: str = "", /, **values: Any) -> StudyTrial:
        """One trial, by the beginning of its key or by values: `study.trial(eta=0.1, seed=0)`.

        An error if none or several fit.
        """
        for name in values:
            if name != "seed" and name not in self.space.axes:
                raise unknown("axis", name, [*self.space.axes, "seed"], where=f"study '{self.name}'")
        found = [
            entry
            for entry in self._stored.entries.values()
            if entry.key.startswith(key) and values.items() <= {**entry.values, "seed": entry.seed}.items()
        ]
        if len(found) != 1:
            what = f"{len(found)} trials are {key or ', '.join(f'{name}={value}' for name, value in values.items())}"
            fix = "give more of them, such as the seed" if found else "see frame() for those that there are"
            raise Co2lError(what, where=f"study '{self.name}'", fix=fix)
        return StudyTrial.of(self.space, found[0])

    def summary(self) -> StudySummary:
        """Progress, best result, cost and age."""
        return summarise(self._stored)

    def outcome(self) -> list[dict[str, object]]:
        """What it came to, a row each: the selected configurations, or mean ± deviation of the tested ones."""
        entries = self._stored.entries.values()
        if self.kind == "evaluation":
            tested = summarise_seeds(self.space, entries)
            return [
                {
                    "configuration": row.name,
                    "seeds": len(row.seeds),
                    **{scenario_title(name): row.shown(name) for name in row.accuracies},
                }
                for row in tested
            ]
        return [
            {
                **{name: short(each.values[name]) for name in self.space.axes},
                **{scenario_title(name): f"{value:.2f}" for name, value in each.accuracies.items()},
                "score": f"{each.score:.2f}",
                "lead": "–" if each.margin.lead is None else f"+{each.margin.lead:.2f}",
            }
            for each in select(self.space, entries).selected
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it: the summary, the importance of axes, and what was selected."""
        return {**self.summary().as_dict(), "importance": self.importance(), "selected": self.best()}

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

    def interactive(self, name: str) -> InteractiveFigure:
        """One of Optuna's figures, to zoom and point at: "history", "parallel", "slice", "contour", "rank".

        Needs plotly: `pip install plotly`.
        """
        from co2l.search.record.interactive import interactive

        return interactive(self.space, list(self._stored.entries.values()), name)

    def __repr__(self) -> str:
        summary = self.summary()
        best = f", best {summary.best}" if summary.best and self.kind == "search" else ""
        return f"<{self.kind} {self.name}: {summary.space}, {summary.progress}{best}>"

    def _repr_html_(self) -> str:
        parts = [html_rows([self.summary().row()])]
        if rows := self.outcome():
            parts.append(
                html_rows(rows, "selected on validation data" if self.kind == "search" else "test accuracy (%)")
            )
        return "".join(parts)

    def _matrix(self) -> dict[str, Any]:
        from co2l.reporting.evaluated import mean_of

        results = self._with_matrix()
        names = results[0]["matrix"] if results else {}
        return {name: mean_of([result["matrix"][name] for result in results]) for name in names}

    def _matrix_probe(self) -> str:
        return next((probe_title(result, "matrix") for result in self._with_matrix()), "")

    def _with_matrix(self) -> list[Mapping[str, Any]]:
        return [entry.result for entry in self._stored.entries.values() if entry.result and entry.result["matrix"]]


class Studies(Sequence[Study]):
    """The studies below a root, by name; a list of `Study`."""

    def __init__(self, found: Sequence[Study]) -> None:
        self._found = tuple(found)

    @overload
    def __getitem__(self, which: int | str) -> Study: ...
    @overload
    def __getitem__(self, which: slice) -> Studies: ...
    def __getitem__(self, which: int | str | slice) -> Study | Studies:
        """By position or by name."""
        if isinstance(which, slice):
            return Studies(self._found[which])
        if isinstance(which, int):
            return self._found[which]
        named = {study.name: study for study in self._found}
        if which not in named:
            raise unknown("study", which, named)
        return named[which]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Study]:
        return iter(self._found)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._found)) or "no studies"

    def _repr_html_(self) -> str:
        return html_rows([study.summary().row() for study in self._found]) if self._found else "no studies"


def load_study(root: str | Path, name: str) -> Study:
    """The study `name` below the folder `root`, or in a storage if `root` is a URL such as postgresql://…"""
    return Study(_reader(root).study(name))


def studies(root: str | Path) -> Studies:
    """All studies below `root`, or in a storage."""
    reader = _reader(root)
    return Studies([Study(reader.study(name)) for name in reader.names()])


def _reader(root: str | Path) -> StudyReader:
    return StudyReader(str(root) if "://" in str(root) else sqlite_url(user_path(root).absolute() / "study.db"))
