"""What a person sees of a search: one live line in a terminal, a plain one now and then elsewhere, then the outcome."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from co2l.browse import browse, from_here
from co2l.display import Display
from co2l.progress import duration, title
from co2l.search.document import VARIANT
from co2l.search.evaluation import Evaluation
from co2l.search.plan import LEFT_OUT, Estimate, Plan
from co2l.search.reports import Entry, Status
from co2l.search.service import Options, Outcome
from co2l.search.space import Space

ENDED: tuple[Status, ...] = ("done", "pruned", "failed")
LULL_SECONDS = 60.0  # between lines of a log while no cell begins or ends


class SearchProgress(Display):
    """Shown every change; draws a line at most every few seconds where there is no terminal."""

    def __init__(self, space: Space, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self.total = space.size if space.algorithm == "grid" else None
        self.started = time.monotonic()
        self.before: int | None = None  # cells that had ended when this process began
        self.told: tuple[int, Counter[Status]] | None = None  # what the last line counted
        self.told_part, self.told_at = 0.0, self.started

    def changed(self, *, running: int, part_done: float, entries: Mapping[str, Entry]) -> None:
        if self.before is None:  # the first one is about to run
            self.before = sum(entry.status in ENDED for entry in entries.values())
        if self.due:
            counts = Counter(entry.status for entry in entries.values())
            if self.is_live or self._is_news(running, counts, part_done):
                self.told, self.told_part, self.told_at = (running, counts), part_done, time.monotonic()
                text = self._line(running, part_done, counts, entries, self.before)
                self.draw(text, Text(text))

    def _is_news(self, running: int, counts: Counter[Status], part_done: float) -> bool:
        """A log is not filled with the same again."""
        lull = time.monotonic() - self.told_at >= LULL_SECONDS
        return (running, counts) != self.told or (lull and part_done != self.told_part)

    def _line(
        self, running: int, part_done: float, counts: Counter[Status], entries: Mapping[str, Entry], before: int
    ) -> str:
        ended = sum(counts[status] for status in ENDED)
        through = f" ({part_done:.0%})" if running and part_done else ""
        parts = [f"{counts['done']}{f'/{self.total}' if self.total else ''} cells done", f"{running} running{through}"]
        parts += [f"{counts[status]} {status}" for status in ("pruned", "failed") if counts[status]]
        done = [entry for entry in entries.values() if entry.score is not None]
        if done:
            best = max(done, key=lambda entry: entry.score or 0.0)
            named = best.values.items()
            settings = " ".join(str(value) if name == VARIANT else f"{name}={value}" for name, value in named)
            parts.append(f"best {best.score:.2f} ({settings})")
        if self.total and ended > before:
            left = self.total - ended - running * part_done
            parts.append(f"ETA {duration((time.monotonic() - self.started) / (ended - before) * left)}")
        return " · ".join(parts)


def print_outcome(space: Space, options: Options, outcome: Outcome, *, as_json: bool) -> None:
    choice = outcome.choice
    if as_json:
        document = {
            "study": options.study,
            "selected": [each.as_dict(space) for each in choice.selected],
            "missing": choice.missing,
            **_spent(outcome),
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
    print(f"selected configurations: {from_here(outcome.selected_file)}")
    _print_rest(options, outcome)


def print_evaluation(evaluation: Evaluation, options: Options, outcome: Outcome, *, as_json: bool) -> None:
    """Test accuracy in mean ± standard deviation over seeds, a row for every configuration."""
    if as_json:
        document = {
            "study": options.study,
            "benchmark": evaluation.benchmark,
            "method": evaluation.method,
            "tested": [
                {"values": dict(row.values), "seeds": list(row.seeds), "accuracies": dict(row.accuracies)}
                for row in outcome.tested
            ],
            **_spent(outcome),
        }
        print(json.dumps(document))
        return
    scenarios = list(outcome.tested[0].accuracies) if outcome.tested else []
    table = Table(title=f"{evaluation.method} on {evaluation.benchmark}: test accuracy (%), mean ± std over seeds")
    for heading in ("configuration", "seeds", *map(title, scenarios)):
        table.add_column(heading, justify="left" if heading == "configuration" else "right")
    for row in outcome.tested:
        table.add_row(row.name, str(len(row.seeds)), *map(row.shown, scenarios))
    if outcome.tested:
        Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(table)
    _print_rest(options, outcome)


def _spent(outcome: Outcome) -> dict[str, Any]:
    totals = outcome.totals
    return {
        "epochs_trained": totals.epochs_trained,
        "epochs_reused": totals.epochs_reused,
        "trial_hours": totals.seconds / 3600,
        "cells_left": outcome.left,
        "failed": outcome.failed,
    }


def _print_rest(options: Options, outcome: Outcome) -> None:
    """What failed, was spent, is left, and where to look."""
    totals = outcome.totals
    for key, reason in outcome.failed.items():
        print(f"failed: {key[:8]}: {reason.strip().splitlines()[-1]}")
    everything = totals.epochs_trained + totals.epochs_reused
    saved = f", {totals.epochs_reused:,} of {everything:,} reused" if totals.epochs_reused else ""
    print(f"epochs trained: {totals.epochs_trained:,}{saved} · {totals.seconds / 3600:.2f} trial-hours")
    if outcome.untracked:
        print(f"{outcome.untracked} reports wait for MLflow; the same command sends them")
    if outcome.left:
        print(f"{outcome.left} cells are left; the same command continues")
    print("\n".join(browse(options.tracking_uri, outcome.page)))


def print_plan(space: Space, plan: Plan, estimate: Estimate | None, *, quiet: bool) -> None:
    about = "" if plan.exact else "at most " if space.algorithm == "grid" else "about "
    rows = [
        ("cells", f"{plan.cells:,}"),
        ("first stages", f"{about}{plan.first_stages:,} distinct"),
        ("stages", f"{about}{plan.stages:,} distinct"),
        ("epochs", f"{about}{plan.epochs_planned:,}, without reuse {plan.epochs_naive:,} ({plan.ratio:.2f} times)"),
    ]
    if estimate:
        rows += [
            ("training", f"{_time(estimate.trial_hours)}, without reuse {_time(estimate.trial_hours_naive)}"),
            ("duration", f"{_time(estimate.hours)} with {estimate.parallel} at once"),
        ]
        if estimate.money is not None:
            rows += [("price", f"{estimate.money:,.2f} at {estimate.price:,.2f} an hour")]
    print(f"{space.source}: {space.method} on {space.benchmark}, {space.algorithm}")
    for name, text in rows:
        print(f"  {name:<13} {text}")
    if quiet:
        return
    if space.algorithm != "grid":
        print(f"The cells are a random draw of {space.samples} samples; {space.algorithm} will draw others.")
    if estimate:
        print(f"The time is an estimate from {LEFT_OUT}.")
        for timed in estimate.timed:
            if timed.batch < timed.settings["batch_size"]:
                print(f"Steps of {timed.settings['batch_size']} samples are too slow here: {timed.batch} were timed.")


def _time(hours: float) -> str:
    if hours >= 1:
        return f"{hours:,.1f} h"
    return f"{hours * 60:.1f} min" if hours * 60 >= 1 else f"{hours * 3600:.1f} s"
