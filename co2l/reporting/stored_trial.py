"""One trial of a study for a notebook: its values, how it ended, what it measured and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from co2l.learning.metrics import reported, scenario_title
from co2l.reporting.html_rows import html_pairs, html_rows, shown
from co2l.search.record.entries import Cost, Entry, Status
from co2l.search.space.naming import named, shortened
from co2l.search.space.space import Space

if TYPE_CHECKING:  # it takes a second to import
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class StudyTrial:
    """A trial as it was when its study was loaded."""

    key: str
    values: dict[str, Any]  # of the axes
    seed: int
    status: Status
    score: float | None
    accuracies: dict[str, float]  # in percent per scenario, after the last task; empty until it is done
    matrix: dict[str, list[list[float]]]  # per scenario, a row after every task; empty if it was not measured
    cost: Cost
    reason: str  # why its last attempt failed, if one did
    settings: dict[str, Any] = field(default_factory=dict)  # complete, defaults included

    @classmethod
    def of(cls, space: Space, entry: Entry) -> StudyTrial:
        """What the record knows of it, with the settings that its space gives it."""
        result = entry.result or {}
        return cls(
            key=entry.key,
            values=dict(entry.values),
            seed=entry.seed,
            status=entry.status,
            score=entry.score,
            accuracies=reported(result) if result else {},
            matrix={name: list(rows) for name, rows in result.get("matrix", {}).items()},
            cost=entry.cost,
            reason=entry.reason,
            settings=space.trial(entry.values, entry.seed).config.settings.model_dump(),
        )

    def row(self) -> dict[str, object]:
        """For a table with a row per trial."""
        return {
            "trial": self.key[:8],
            **self.values,
            "seed": self.seed,
            "status": self.status,
            **{scenario_title(name): shown(value) for name, value in self.accuracies.items()},
            "score": shown(self.score),
            "epochs": self.cost.epochs_trained,
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it."""
        names = "key", "values", "seed", "status", "score", "accuracies", "matrix", "reason", "settings"
        return {**{name: getattr(self, name) for name in names}, "cost": self.cost.as_dict()}

    def figure(self) -> Figure:
        """Its accuracy matrix."""
        from co2l.reporting import figures

        return figures.heat_maps(self.matrix, "")

    def __repr__(self) -> str:
        found = ", ".join(f"{scenario_title(name)} {value:.2f}" for name, value in self.accuracies.items())
        values = named(shortened(self.values, {}), separator=" ")
        return f"<trial {self.key[:8]}: {values} seed={self.seed}, {self.status}{f', {found}' if found else ''}>"

    def _repr_html_(self) -> str:
        pairs = {**self.row(), **({"reason": self.reason} if self.reason else {}), "hours": self.cost.hours}
        parts = [html_pairs(pairs, f"trial {self.key[:8]}")]
        for name, rows in self.matrix.items():
            after = [
                {"after task": t + 1, **{f"task {i + 1}": row[i] if i < len(row) else None for i in range(len(rows))}}
                for t, row in enumerate(rows)
            ]
            parts.append(html_rows(after, f"{scenario_title(name)} (%)"))
        return "".join([*parts, html_pairs(self.settings, "settings")])
