"""What you see of a run: a live row in a terminal, an occasional plain line elsewhere, a table at the end."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from co2l.cli.display import Display, duration
from co2l.data.streams import TaskStream
from co2l.learning.collapse import collapse
from co2l.learning.config import RunConfig
from co2l.learning.events import EpochDone, Evaluating, Event, Result, RunDone, StepDone, TaskDone
from co2l.learning.methods import METHODS
from co2l.learning.metrics import PROBES, mean, probe_title, scenario_title
from co2l.learning.progress import Meter, Position
from co2l.learning.results import result_document


class RunProgress:
    """Consumes a run's events; costs nothing between redraws, so it does not slow down training."""

    def __init__(self, display: Display, config: RunConfig, tasks: TaskStream, *, verbose: bool = False) -> None:
        self.display, self.tasks, self.verbose = display, len(tasks), verbose
        self.epochs = config.epochs
        self.meter = Meter(self.epochs)
        self.dead: list[float | None] = []
        self.collapsed = False
        probe = METHODS[config.method].matrix_probe(config.settings)
        self.probe = f" ({PROBES.get(probe, probe)})" if probe else ""  # whose accuracies each task ends with

    def show(self, event: Event) -> None:
        if self.display.quiet or isinstance(event, RunDone):
            return
        self.meter.see(event)
        if isinstance(event, StepDone) and self.display.due:
            self._draw(f"loss {sum(float(value) for value in event.losses.values()):.3f}")
        elif isinstance(event, EpochDone) and self.verbose:
            losses = ", ".join(f"{name} {value:.4f}" for name, value in event.losses.items())
            where = f"task {event.task + 1}/{self.tasks} · epoch {event.epoch}/{event.epochs}"
            self.display.note(f"{where} · {losses} · lr {event.lr:.2g}")
        elif isinstance(event, Evaluating) and (self.display.is_live or event.probe == "paper"):  # it may take minutes
            self._draw()
        elif isinstance(event, TaskDone):
            self._task(event)

    def _draw(self, loss: str = "") -> None:
        position = self.meter.position()
        assert position is not None
        text = " · ".join([*described(position), *([loss] if loss else [])])
        self.display.draw(text, [Text.assemble((f"{position.part_done:4.0%} ", "cyan"), text)])

    def _task(self, event: TaskDone) -> None:
        how = f"{event.epochs_trained} epochs" if event.epochs_trained else "from the store"
        if not self.epochs[event.task]:
            how = "nothing to train yet"
        found = ""
        if event.row:
            means = ", ".join(f"{scenario_title(name)} {mean(row):.1f}" for name, row in event.row.items())
            found = f" · {means}{self.probe}"
        self.display.note(f"task {event.task + 1}/{self.tasks} done ({how}){found}")
        self.dead.append(event.dead)
        if not self.collapsed and (line := collapse(self.dead)):
            self.collapsed = True  # say so once
            self.display.warn([line])


def described(position: Position) -> list[str]:
    """Where a run is: task, epoch, step, views per second and the time left, as far as known."""
    words = [f"task {position.task + 1}/{position.tasks}"]
    if position.probe:
        return [*words, f"evaluating ({position.probe} probe)"]
    words += [f"epoch {position.epoch}/{position.epochs}"]
    words += [f"step {position.step}/{position.steps}"] if position.steps > 1 else []
    words += [f"{position.views_per_second:,.0f} views/s"] if position.views_per_second else []
    return words if position.seconds_left is None else [*words, f"ETA {duration(position.seconds_left)}"]


def print_result(config: RunConfig, result: Result, path: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result_document(config, result)))
        return
    found = result.as_dict()
    final, matrix = probe_title(found, "final"), probe_title(found, "matrix")
    title = f"{config.method} on {config.benchmark}, seed {config.seed}: accuracy after the last task (%, {final})"
    caption = f"forgetting and backward transfer: {matrix}, after every task" if result.matrix else None
    table = Table(title=title, caption=caption)
    table.add_column("scenario")
    for t in range(len(next(iter(result.final.values())))):
        table.add_column(f"task {t + 1}", justify="right")
    for heading in ("average", "forgetting", "backward"):
        table.add_column(heading, justify="right")
    for name, row in result.final.items():
        extra = [
            f"{found[key][name]:.2f}" if name in found[key] else "–" for key in ("forgetting", "backward_transfer")
        ]
        table.add_row(scenario_title(name), *(f"{a:.1f}" for a in row), f"{mean(row):.2f}", *extra)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(table)
    print(f"weights {result.weights[:16]} · result in {path}")
