"""A study in one row: what it searches, how far it is, its best result, what it has cost, and when it last changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from co2l.search.record.entries import Cost
from co2l.search.record.reader import Kind, StoredStudy
from co2l.search.selection.rule import select
from co2l.search.selection.seeds import summarise_seeds
from co2l.search.space.naming import named, shortened
from co2l.search.space.plan import trial_count
from co2l.search.space.space import Space

RACED = "raced"  # of trials with further seeds, however they ended
_UNITS = {"d": 86_400, "h": 3600, "min": 60}


@dataclass(frozen=True)
class StudySummary:
    """Progress, best result, cost and age of a study."""

    name: str
    kind: Kind
    space: str  # method, benchmark and algorithm
    trials: int | None  # that it has in the end; None if its algorithm decides
    statuses: dict[str, int]  # how many trials are done, failed, … and how many raced
    best: str  # of a search, what is selected; of an evaluation of one configuration, its accuracy; else empty
    cost: Cost
    changed: datetime | None

    @property
    def progress(self) -> str:
        """As `30/32 done, 1 failed`."""
        counted = {"done": 0, **self.statuses}
        total = f"/{self.trials}" if self.trials else ""
        others = [f"{count} {status}" for status, count in counted.items() if status != "done"]
        return ", ".join([f"{counted['done']}{total} done", *others])

    @property
    def age(self) -> str:
        """The time since it changed, as `3 h`."""
        if self.changed is None:
            return "–"
        seconds = max(0.0, (datetime.now() - self.changed).total_seconds())
        unit = next((unit for unit, length in _UNITS.items() if seconds >= length), "s")
        return f"{seconds / _UNITS.get(unit, 1):.0f} {unit}"

    def row(self) -> dict[str, str]:
        """For people."""
        return {
            "study": self.name,
            "kind": self.kind,
            "space": self.space,
            "progress": self.progress,
            "cost": f"{self.cost.epochs_trained:,} epochs, {self.cost.hours:.2f} h",
            "age": self.age,
            "best": self.best or "–",
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON has it."""
        changed = self.changed.isoformat(timespec="seconds") if self.changed else None
        return {**asdict(self), "cost": self.cost.as_dict(), "changed": changed}


def summarise(stored: StoredStudy) -> StudySummary:
    space, entries = stored.space, stored.entries.values()
    statuses = Counter(entry.status if entry.seed in space.seeds else RACED for entry in entries)
    return StudySummary(
        name=stored.name,
        kind=stored.kind,
        space=described(space, stored.kind),
        trials=trial_count(space),
        statuses=dict(statuses),
        best=_best(stored),
        cost=stored.cost(),
        changed=stored.changed,
    )


def described(space: Space, kind: Kind) -> str:
    return f"{space.method_title} on {space.benchmark}" + (f", {space.algorithm}" if kind == "search" else "")


def _best(stored: StoredStudy) -> str:
    """Never one of several tested configurations: test accuracy selects nothing."""
    if stored.kind == "search":
        selected = select(stored.space, stored.entries.values()).selected
        best = max(selected, key=lambda each: each.score, default=None)
        return f"{best.score:.2f} ({named(shortened(best.values, {}), separator=' ')})" if best else ""
    rows = summarise_seeds(stored.space, stored.entries.values())
    return f"{rows[0].shown('score')} ({len(rows[0].seeds)} seeds)" if len(rows) == 1 else ""
