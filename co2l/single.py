"""One run in this process, with progress."""

from __future__ import annotations

from co2l.console import interruptible
from co2l.data.sources import data_root
from co2l.data.streams import open_stream
from co2l.learning.config import RunConfig
from co2l.learning.device import choose_device
from co2l.learning.results import save_result
from co2l.learning.run import Result, RunDone, run
from co2l.learning.store import Store
from co2l.progress import RunProgress


class InterruptedRunError(Exception):
    """Somebody asked to stop; the state is saved."""


def run_here(
    config: RunConfig, *, data: str | None, root: str, device: str, save_every: float, quiet: bool
) -> tuple[Result, str]:
    """The result and the path of its JSON file. Continues from, and answers with, what is stored below `root`."""
    where = choose_device(device)
    tasks = open_stream(config.benchmark, split=config.split, seed=config.seed, data=data_root(data))
    store = Store(f"{root.rstrip('/')}/store")
    with RunProgress(config, tasks, quiet=quiet) as progress, interruptible() as asked_to_stop:
        events = run(config, tasks, store, device=where, save_every=save_every)
        for event in events:
            progress.show(event)
            if isinstance(event, RunDone):
                return event.result, save_result(root, config, event.result)
            if asked_to_stop():
                events.close()
                progress.note("stopped; the state is saved, the same command continues from it")
                raise InterruptedRunError
    raise AssertionError("a run ends with its result")
