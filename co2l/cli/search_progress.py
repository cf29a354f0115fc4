"""What you see of a search before it ends: its plan, a live line in a terminal, occasional plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from co2l.cli.browse import from_here
from co2l.cli.display import Display, duration
from co2l.cli.run_progress import described
from co2l.errors import headline
from co2l.learning.collapse import collapse
from co2l.search.record.entries import ENDED, Entry, Status, of_seeds
from co2l.search.running.coordinator import Running
from co2l.search.space.naming import named, shortened
from co2l.search.space.plan import trial_count
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

LULL_SECONDS = 60.0  # between log lines while no trial begins or ends
ROWS = 4  # for running trials

ENOUGH = 0.02  # of a trial, before the time that is left is estimated from it


class SearchProgress:
    """Hears of every change; without a terminal, prints a line at most every few seconds."""

    def __init__(self, display: Display, space: Space, *, verbose: bool = False) -> None:
        self.display, self.verbose = display, verbose
        self.told: dict[str, Status] = {}  # how each trial ended, as far as it was said
        self.watched: set[str] = set()  # trials whose features were looked at
        self.total, self.seeds = trial_count(space), space.seeds
        count = f"{self.total} {'trial' if self.total == 1 else 'trials'}" if self.total else f"{space.samples} samples"
        self.title = f"{space.method_title} on {space.benchmark}, {space.algorithm}, {count}"
        self.ranks = space.split.kind == "search"  # an evaluation compares no seeds
        self.before, self.began = 0, -1.0  # trials that had ended when the first one of this process began, and when
        self.shown: tuple[int, Counter[Status]] | None = None  # what the last line counted
        self.shown_part, self.shown_at = 0.0, 0.0

    def doing(self, what: str, *, checking: bool = False) -> None:
        self.display.doing(f"{self.title}: {what}", checking=checking)

    def changed(self, running: Sequence[Running], entries: Mapping[str, Entry]) -> None:
        now = time.monotonic()
        if self.began < 0:  # the first trial is about to run
            known = of_seeds(entries.values(), self.seeds)
            self.before, self.began = sum(entry.status in ENDED for entry in known), now
            self.told = {key: entry.status for key, entry in entries.items()}
        self._warn(entries)
        if self.verbose:
            self._tell(entries)
        if self.display.due:
            part = sum(each.part_done for each in running if each.trial.seed in self.seeds)
            counts = Counter(entry.status for entry in of_seeds(entries.values(), self.seeds))
            if self.display.is_live or self._is_news(len(running), counts, part, now):
                self.shown, self.shown_part, self.shown_at = (len(running), counts), part, now
                head, tail = self._summary(counts, part, entries, now)
                text = " · ".join([*head, _briefly(running), *tail])
                rows = [" · ".join([*head, f"{len(running)} running", *tail]), *map(_row, running[:ROWS])]
                more = [f"  and {len(running) - ROWS} more"] if len(running) > ROWS else []
                self.display.draw(text, [*rows, *more])

    def failed(self, trial: Trial, reason: str, log: Path | None, *, again: bool) -> None:
        """What an attempt said last is worth a line at once: a search may fail for hours."""
        where = f"; log: {from_here(log)}" if log else ""
        outcome = "failed and is tried again" if again else "failed"
        name = named(trial.values, separator=" ")
        self.display.note(f"trial {trial.key[:8]} ({name}) {outcome}: {headline(reason)}{where}")

    def _warn(self, entries: Mapping[str, Entry]) -> None:
        """Say of every trial whose representation collapsed that it did, once."""
        for key, entry in entries.items():
            if key not in self.watched and entry.result is not None:
                self.watched.add(key)
                if line := collapse(entry.result.get("dead_features", ())):
                    name = named(entry.values, separator=" ")
                    self.display.warn([f"trial {key[:8]} ({name}, seed {entry.seed}): {line}"])

    def _tell(self, entries: Mapping[str, Entry]) -> None:
        """With --verbose, a line for every trial that began or ended."""
        for key, entry in entries.items():
            if entry.status != self.told.get(key) and entry.status != "failed":  # which is said anyway
                scored = f" {entry.score:.2f}" if entry.score is not None and self.ranks else ""
                spent = f" in {duration(entry.cost.seconds)}" if entry.status in ENDED else ""
                name = named(entry.values, separator=" ")
                self.display.note(f"trial {key[:8]} ({name}, seed {entry.seed}) {entry.status}{scored}{spent}")
            self.told[key] = entry.status

    def _is_news(self, running: int, counts: Counter[Status], part: float, now: float) -> bool:
        """Whether a log needs another line: do not repeat the last one."""
        lull = now - self.shown_at >= LULL_SECONDS
        return (running, counts) != self.shown or (lull and part != self.shown_part)

    def _summary(
        self, counts: Counter[Status], part: float, entries: Mapping[str, Entry], now: float
    ) -> tuple[list[str], list[str]]:
        """What is said before and after how many trials run."""
        ended = sum(counts[status] for status in ENDED)
        tail = [f"{counts[status]} {status}" for status in ("paused", "pruned", "failed") if counts[status]]
        work = ended - self.before + part
        if self.total and work >= ENOUGH and now > self.began and ended < self.total:
            tail.append(f"ETA {duration((now - self.began) / work * (self.total - ended - part))}")
        if raced := sum(entry.status in ENDED and entry.seed not in self.seeds for entry in entries.values()):
            tail.append(f"{raced} in the race")
        done = [entry for entry in entries.values() if entry.score is not None]
        axes = max((len(entry.values) for entry in done), default=0)  # of a greedy search, those of the last round
        done = [entry for entry in done if len(entry.values) == axes]
        if done and self.ranks:
            best = max(done, key=lambda entry: entry.score or 0.0)
            tail.append(f"best {best.score:.2f} ({named(shortened(best.values, {}), separator=' ')})")
        return [f"{counts['done']}{f'/{self.total}' if self.total else ''} trials done"], tail


def _briefly(running: Sequence[Running]) -> str:
    """How many trials run and how far they are, in a log."""
    known = [each.position for each in running if each.position]
    if len(running) == 1 and known:
        return f"1 running ({', '.join(described(known[0]))})"
    part = sum(each.part_done for each in running)
    return f"{len(running)} running" + (f" ({part / len(running):.0%})" if part else "")


def _row(running: Running) -> str:
    words = described(running.position) if running.position else ["starting"]
    return "  " + " · ".join([*words, named(running.trial.values, separator=" ")])


def why_more_trials(space: Space) -> str:
    """Why a search has more trials than `samples`, if so: each configuration is tried several times."""
    if space.samples is None or space.trials_per_point == 1:
        return ""
    parts = [f"{len(space.seeds)} seeds"] if len(space.seeds) > 1 else []
    parts += [f"{len(space.lists([name])[0])} values of {name}" for name in space.selection.mean_over]
    return f" ({space.samples} samples, each with {' and '.join(parts)})"
