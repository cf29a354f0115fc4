"""Ray Tune runs the trials of a search, on this machine's cores or on a cluster, with one actor per slot.

Tune only keeps the slots busy. Which cell is next, and what became of it, the conductor decides and records; Tune's own
checkpoints and restores are not used.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")  # its way out tells neither searcher nor trials
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "86400")  # the record is in the study, not in Tune's snapshots
os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", "1000000")  # how many may wait for a place is the searcher's to say

import ray
from ray import tune
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher
from ray.tune.stopper import Stopper

from co2l.errors import Co2lError
from co2l.search.conductor import Conductor
from co2l.search.nodes import places
from co2l.search.queue import FINISHED
from co2l.search.space import Cell
from co2l.search.trainable import Assignment, CellTrainable

CONNECT_SECONDS = 10.0
LEAVE_SECONDS = 5.0  # for running trials to report once more when a search is stopped
START_TRIES = 2  # Ray gives itself 30 s to start here, which a busy machine may exceed

Assign = Callable[[Cell], Assignment]


class Leaving:
    """Whether the search shall end: then no trial begins, and each stops where it next reports, so all is told."""

    def __init__(self, asked_to_stop: Callable[[], bool], time_budget: float | None) -> None:
        self._asked, self._since = asked_to_stop, math.inf
        self._deadline = math.inf if time_budget is None else time.monotonic() + time_budget

    def __bool__(self) -> bool:
        if self._since == math.inf and (self._asked() or time.monotonic() >= self._deadline):
            self._since = time.monotonic()
        return self._since < math.inf

    @property
    def overdue(self) -> bool:
        """Whether some had time to report and did not: they are in a long evaluation, or still starting."""
        return bool(self) and time.monotonic() - self._since > LEAVE_SECONDS


class CellSearcher(Searcher):
    """Asks the conductor for cells, and tells it which trials are over.

    A trial waits for each of the `places` that none has yet, so that all processes start at once and an autoscaler
    sees how many nodes are wanted; and one for the next place to become free, not more, as TPE knows more by then.
    """

    def __init__(self, conductor: Conductor, assign: Assign, leaving: Leaving, places: int) -> None:
        super().__init__()
        self.conductor, self.assign, self.leaving, self.places = conductor, assign, leaving, places

    def suggest(self, trial_id: str) -> Any:  # a configuration, None to wait, or FINISHED
        if self.leaving:
            return Searcher.FINISHED
        if self.conductor.waiting >= max(1, self.places - self.conductor.running):
            return None
        cell = self.conductor.next(trial_id)
        if isinstance(cell, Cell):
            return self.assign(cell).as_dict()
        return Searcher.FINISHED if cell is FINISHED else None

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        del result  # every message has come through the stopper
        self.conductor.ended(trial_id, died=error)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None: ...

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...


class Beginnings(Callback):
    """Tune calls it when a trial has its process, a new one or that of an ended trial."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        del iteration, trials, info
        self.conductor.begun(trial.trial_id)


class Messages(Stopper):
    """Tune's stopper sees every result first, whole, and may end a trial: that is how messages come in."""

    def __init__(self, conductor: Conductor, leaving: Leaving) -> None:
        self.conductor, self.leaving = conductor, leaving

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self.conductor.received(trial_id, result) or bool(self.leaving)

    def stop_all(self) -> bool:
        return self.leaving.overdue

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes it into a snapshot that nobody reads


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Ray at `address`, or started here and stopped again."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # how trials end is the conductor's to tell
    with contextlib.redirect_stdout(sys.stderr):  # Ray tells of lost workers; a command's output is its result
        for left in reversed(range(1 if address else START_TRIES)):
            try:
                _connect(address)
                break
            except Exception as error:  # Ray raises many kinds here, and tells the reason only in words
                if not left:
                    raise _refusal(address, str(error).strip() or type(error).__name__) from None
        try:
            yield
        finally:
            ray.shutdown()  # tells what it held back


def _refusal(address: str | None, reason: str) -> Co2lError:
    where = address or "this machine"
    if reason.startswith("Version mismatch"):  # Ray writes the versions into the lines that follow
        return Co2lError(" ".join(reason.split()), where=where, fix="install the cluster's versions here")
    fix = "check --address, and `ray status`" if address else "run the same command again"
    return Co2lError(f"Ray cannot be reached ({reason.splitlines()[0]})", where=where, fix=fix)


def _connect(address: str | None) -> None:
    if address and ":" in address:  # where nobody listens Ray itself would wait for minutes and fill the screen
        host, _, port = address.rpartition("/")[2].rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    before = signal.getsignal(signal.SIGTERM)
    ray.init(
        address=address,
        include_dashboard=None if address else False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray takes it for itself, and would end without saving anything


def run_trials(
    conductor: Conductor,
    assign: Assign,
    asked_to_stop: Callable[[], bool],
    *,
    cpus: float,
    gpus: float,
    max_concurrent: int | None,
    time_budget: float | None,
    trainable: type[CellTrainable] = CellTrainable,
) -> None:
    """Until there is nothing left to run, the time is up, or somebody asks to stop."""
    leaving = Leaving(asked_to_stop, time_budget)
    searcher = CellSearcher(conductor, assign, leaving, max_concurrent or places(cpus, gpus))
    folder = tempfile.mkdtemp(prefix="co2l-tune-")
    try:
        tune.run(
            tune.with_resources(trainable, {"cpu": cpus, "gpu": gpus}),
            name="trials",
            storage_path=folder,
            num_samples=-1,
            search_alg=searcher,
            stop=Messages(conductor, leaving),
            callbacks=[Beginnings(conductor)],
            max_concurrent_trials=max_concurrent or 0,
            reuse_actors=True,
            max_failures=0,
            raise_on_failed_trial=False,
            verbose=0,
        )
    finally:
        conductor.stop()
        shutil.rmtree(folder, ignore_errors=True)
