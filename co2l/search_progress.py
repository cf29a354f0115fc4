"""What a person sees of a search: one live line in a terminal, a plain one now and then elsewhere, then the outcome."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from co2l.display import Display
from co2l.progress import duration
from co2l.search.reports import Entry
from co2l.search.service import Options, Outcome
from co2l.search.space import Space


class SearchProgress(Display):
    """Shown every change; draws a line at most every few seconds where there is no terminal."""

    def __init__(self, space: Space, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self.total = space.size if space.algorithm == "grid" else None
        self.objective = space.objective
        self.started = time.monotonic()
        self.before: int | None = None  # cells that had ended when this process began

    def changed(self, *, running: int, entries: Mapping[str, Entry]) -> None:
        if self.due:
            text = self._line(running, entries)
            self.draw(text, Text(text))

    def _line(self, running: int, entries: Mapping[str, Entry]) -> str:
        counts = Counter(entry.status for entry in entries.values())
        ended = counts["done"] + counts["pruned"] + counts["failed"]
        if self.before is None:
            self.before = max(0, ended - 1)
        parts = [f"{counts['done']}{f'/{self.total}' if self.total else ''} cells done", f"{running} running"]
        parts += [f"{counts[status]} {status}" for status in ("pruned", "failed") if counts[status]]
        done = [entry for entry in entries.values() if entry.score is not None]
        if done:
            best = max(done, key=lambda entry: entry.score or 0.0)
            settings = " ".join(f"{name}={value}" for name, value in best.values.items())
            parts.append(f"best {best.score:.2f} ({settings})")
        if self.total and ended > self.before:
            seconds = (time.monotonic() - self.started) / (ended - self.before) * (self.total - ended)
            parts.append(f"ETA {duration(seconds)}")
        return " · ".join(parts)


def print_outcome(space: Space, options: Options, outcome: Outcome, *, as_json: bool) -> None:
    choice, totals = outcome.choice, outcome.totals
    if as_json:
        document = {
            "study": options.study,
            "selected": [each.as_dict(space) for each in choice.selected],
            "missing": choice.missing,
            "epochs_trained": totals.epochs_trained,
            "epochs_reused": totals.epochs_reused,
            "trial_hours": totals.seconds / 3600,
            "cells_left": outcome.left,
            "failed": outcome.failed,
        }
        print(json.dumps(document))
        return
    table = Table(title=f"selected on validation data: {options.study} ({space.objective})")
    for name in (*space.axes, "score"):
        table.add_column(name, justify="right")
    for each in choice.selected:
        table.add_row(*(str(each.values[name]) for name in space.axes), f"{each.score:.2f}")
    if choice.selected:
        Console(width=None if sys.stdout.isatty() else 120, highlight=False).print(table)
    for line in choice.missing:
        print(f"nothing selected for {line}")
    for key, reason in outcome.failed.items():
        print(f"failed: {key[:8]}: {reason.strip().splitlines()[-1]}")
    everything = totals.epochs_trained + totals.epochs_reused
    saved = f", {totals.epochs_reused:,} of {everything:,} reused" if totals.epochs_reused else ""
    print(f"epochs trained: {totals.epochs_trained:,}{saved} · {totals.seconds / 3600:.2f} trial-hours")
    if outcome.untracked:
        print(f"{outcome.untracked} reports wait for MLflow; the same command sends them")
    if outcome.left:
        print(f"{outcome.left} cells are left; the same command continues")
    print(f"selected configurations: {outcome.selected_file}")
    print(f"browse: mlflow ui --backend-store-uri {options.tracking_uri}")
