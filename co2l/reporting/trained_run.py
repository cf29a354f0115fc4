"""A single run for a notebook: its configuration, accuracies, and the file that holds them."""

from __future__ import annotations

from dataclasses import dataclass

from co2l.learning.config import RunConfig
from co2l.learning.events import Result
from co2l.learning.metrics import mean, scenario_title
from co2l.reporting.html_rows import html_pairs, html_rows


@dataclass(frozen=True, repr=False)
class TrainedRun:
    """What `run_training` returns."""

    config: RunConfig
    result: Result
    path: str  # of its JSON file

    @property
    def accuracies(self) -> dict[str, float]:
        """In percent per scenario, after the last task."""
        return {name: mean(row) for name, row in self.result.final.items()}

    @property
    def _title(self) -> str:
        return f"{self.config.method} on {self.config.benchmark}, seed {self.config.seed}"

    def __repr__(self) -> str:
        found = ", ".join(f"{scenario_title(name)} {value:.2f}" for name, value in self.accuracies.items())
        return f"<run of {self._title}: {found}>"

    def _repr_html_(self) -> str:
        rows = [
            {
                "scenario": scenario_title(name),
                **{f"task {t + 1}": f"{value:.1f}" for t, value in enumerate(row)},
                "average": f"{mean(row):.2f}",
            }
            for name, row in self.result.final.items()
        ]
        return html_rows(rows, self._title) + html_pairs(self.config.settings.model_dump(), "settings")
