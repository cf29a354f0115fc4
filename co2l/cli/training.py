"""One run in this process, with progress on the console."""

from __future__ import annotations

from co2l.cli.console import interruptible
from co2l.cli.display import Display
from co2l.cli.run_progress import RunProgress
from co2l.data.root import data_root
from co2l.learning.advice import advice, task_sizes
from co2l.learning.config import RunConfig
from co2l.learning.device import choose_device
from co2l.learning.events import Result, RunDone
from co2l.learning.results import save_result
from co2l.learning.run import run
from co2l.learning.store import Store


class InterruptedRunError(Exception):
    """The user asked to stop; the checkpoint is saved."""


def run_here(
    config: RunConfig,
    display: Display,
    *,
    root: str,
    device: str,
    save_every: float,
    verbose: bool = False,
) -> tuple[Result, str]:
    """The result and the path of its JSON file. Continues from what is stored below `root`, or returns it."""
    where = choose_device(device)
    tasks = config.open_stream(data_root())
    store = Store(f"{root.rstrip('/')}/store")
    store.claim({"run": config.as_dict()})
    display.warn(advice(config, task_sizes(tasks)))
    progress = RunProgress(display, config, tasks, verbose=verbose)
    with interruptible() as asked_to_stop:
        display.stops_when(asked_to_stop)
        events = run(config, tasks, store, device=where, save_every=save_every)
        for event in events:
            progress.show(event)
            if isinstance(event, RunDone):
                return event.result, save_result(root, config, event.result)
            if asked_to_stop():
                events.close()
                display.note("stopped; the checkpoint is saved, run the same command to continue")
                raise InterruptedRunError
    raise AssertionError("a run ends with its result")
