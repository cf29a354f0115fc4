"""What a person sees of a run: a live bar in a terminal, a plain line now and then elsewhere, a table at the end."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from co2l.console import is_terminal
from co2l.data.streams import TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.metrics import mean
from co2l.learning.results import result_document
from co2l.learning.run import Evaluating, Event, Result, RunDone, StepDone, TaskDone

REDRAW_SECONDS, LOG_SECONDS = 0.2, 10.0


class RunProgress:
    """Consumes a run's events; costs nothing between two redraws, so that the training step is not slowed."""

    def __init__(self, config: RunConfig, tasks: TaskStream, *, quiet: bool) -> None:
        self.tasks, self.quiet = len(tasks), quiet
        settings = config.settings
        self.epochs = [settings.E_0] + [settings.E_t] * (self.tasks - 1)
        self.started = self.shown = time.monotonic()
        self.trained_epochs = 0.0  # by this process, for the speed; `done` counts stored ones too
        self.views, self.views_since = 0, time.monotonic()
        self.speed = 0.0
        self.console = Console(file=sys.stderr, highlight=False)
        self.bar = Progress(
            TextColumn("{task.fields[text]}"), BarColumn(bar_width=20), TextColumn("{task.percentage:>3.0f}%")
        )
        self.line = self.bar.add_task("", total=sum(self.epochs), text="")
        self.live: Live | None = None
        self.every = LOG_SECONDS
        if is_terminal() and not quiet:
            self.every = REDRAW_SECONDS
            self.live = Live(self.bar, console=self.console, transient=True, auto_refresh=False)

    def __enter__(self) -> RunProgress:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def note(self, text: str) -> None:
        print(text, file=sys.stderr) if self.live is None else self.console.print(text, markup=False)

    def show(self, event: Event) -> None:
        if self.quiet or isinstance(event, RunDone):
            return
        if isinstance(event, StepDone):
            self.views += event.views
            self.trained_epochs += 1 / event.steps
            if time.monotonic() - self.shown >= self.every:
                self._step(event)
        elif isinstance(event, Evaluating):
            if self.live or event.probe == "paper":  # which may take minutes
                self._draw(f"task {event.task + 1}/{self.tasks} · evaluating ({event.probe} probe)", event.task + 1)
            self.views, self.views_since = 0, time.monotonic()
        elif isinstance(event, TaskDone):
            self._task(event)

    def _step(self, event: StepDone) -> None:
        now = time.monotonic()
        self.speed, self.views, self.views_since = self.views / (now - self.views_since), 0, now
        done = sum(self.epochs[: event.task]) + event.epoch - 1 + event.step / event.steps
        remaining = (sum(self.epochs) - done) * (now - self.started) / self.trained_epochs
        loss = sum(float(value) for value in event.losses.values())
        self._draw(
            f"task {event.task + 1}/{self.tasks} · epoch {event.epoch}/{event.epochs} · loss {loss:.3f}"
            f" · {self.speed:,.0f} views/s · ETA {duration(remaining)}",
            event.task,
            event.epoch - 1 + event.step / event.steps,
        )

    def _draw(self, text: str, task: int, epochs: float = 0.0) -> None:
        self.shown = time.monotonic()
        if self.live is None:
            print(text, file=sys.stderr, flush=True)
            return
        self.bar.update(self.line, completed=sum(self.epochs[:task]) + epochs, text=text)
        self.live.update(self.bar, refresh=True)

    def _task(self, event: TaskDone) -> None:
        how = f"{event.epochs_trained} epochs" if event.epochs_trained else "from the store"
        found = ""
        if event.row:
            found = " · " + ", ".join(f"{title(name)} {mean(row):.1f}" for name, row in event.row.items())
        self.note(f"task {event.task + 1}/{self.tasks} done ({how}){found}")


def print_result(config: RunConfig, result: Result, path: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result_document(config, result)))
        return
    table = Table(title=f"{config.method} on {config.benchmark}, seed {config.seed}: accuracy after the last task (%)")
    table.add_column("scenario")
    for t in range(len(next(iter(result.final.values())))):
        table.add_column(f"task {t + 1}", justify="right")
    for heading in ("average", "forgetting", "backward"):
        table.add_column(heading, justify="right")
    found = result.as_dict()
    for name, row in result.final.items():
        extra = [
            f"{found[key][name]:.2f}" if name in found[key] else "–" for key in ("forgetting", "backward_transfer")
        ]
        table.add_row(title(name), *(f"{a:.1f}" for a in row), f"{mean(row):.2f}", *extra)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(table)
    print(f"weights {result.weights[:16]} · result in {path}")


def title(scenario: str) -> str:
    return {"class_il": "Class-IL", "task_il": "Task-IL", "domain_il": "Domain-IL"}.get(scenario, scenario)


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
