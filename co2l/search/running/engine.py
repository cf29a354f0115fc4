"""Ray Tune runs the trials of a search, on this machine's cores or on a cluster, with one actor per slot.

Tune only keeps the slots busy. The coordinator decides which trial is next and records what became of it; Tune's own
checkpoints and restores are not used.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune import Callback
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher
from ray.tune.stopper import Stopper

from co2l.errors import Co2lError, headline
from co2l.learning.progress import Position
from co2l.search.running.coordinator import Coordinator
from co2l.search.running.local_ray import LocalRay, local_ray
from co2l.search.running.nodes import slots
from co2l.search.running.private_folder import private_folder
from co2l.search.running.queue import FINISHED
from co2l.search.running.reports import Report
from co2l.search.running.trainable import Assignment, TrialTrainable
from co2l.search.space.trial import Trial

CONNECT_SECONDS = 10.0
SHUTDOWN_SECONDS = 5.0  # for running trials to report once more when a search is stopped
NOT_SET_UP = "an error raised in its creation task"  # of Ray's message on a trainable that a worker could not make
START_TRIES = 2  # Ray gives itself 30 s to start here, which a busy machine may exceed

Assign = Callable[[Trial], Assignment]


class Shutdown:
    """Whether the search has to end: then no trial begins, and each stops at its next report: nothing is lost."""

    def __init__(self, asked_to_stop: Callable[[], bool], time_budget: float | None) -> None:
        self._asked, self._since = asked_to_stop, math.inf
        self._deadline = math.inf if time_budget is None else time.monotonic() + time_budget
        self.error: Exception | None = None  # the first of ours, to be raised once Tune has ended

    def __bool__(self) -> bool:
        if self._since == math.inf and (self.error or self._asked() or time.monotonic() >= self._deadline):
            self._since = time.monotonic()
        return self._since < math.inf

    @contextlib.contextmanager
    def after_errors(self) -> Iterator[None]:
        """An error inside ends the search: Tune would take it for one of the trial, or only log it."""
        try:
            yield
        except Exception as error:
            self.error = self.error or error

    @property
    def overdue(self) -> bool:
        """Whether a trial had time to report and did not: it is in a long evaluation, or still starting."""
        return bool(self) and time.monotonic() - self._since > SHUTDOWN_SECONDS


class TrialSearcher(Searcher):
    """Asks the coordinator for trials, and reports which of them are over.

    A trial waits for each of the `slots` that is free, so that all processes start at once and an autoscaler sees how
    many nodes are wanted; and one for the next slot to become free, not more: an adaptive algorithm knows more by then.
    """

    def __init__(self, coordinator: Coordinator, assign: Assign, shutdown: Shutdown, slots: int) -> None:
        super().__init__()
        self.coordinator, self.assign, self.shutdown, self.slots = coordinator, assign, shutdown, slots

    def suggest(self, trial_id: str) -> Any:  # a configuration, None to wait, or FINISHED
        if self.shutdown:
            return Searcher.FINISHED
        if self.coordinator.waiting >= max(1, self.slots - self.coordinator.running):
            return None
        with self.shutdown.after_errors():
            trial = self.coordinator.next(trial_id)
            if isinstance(trial, Trial):
                return self.assign(trial).as_dict()
            return Searcher.FINISHED if trial is FINISHED else None
        return Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        del result  # every message has come through the stopper
        if not error:  # else its callback follows, which knows the reason
            with self.shutdown.after_errors():
                self.coordinator.ended(trial_id, died=False)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None: ...

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...


class TrialCallback(Callback):
    """Tune calls it when a trial has its process, a new one or that of an ended trial, and when it is lost.

    Tune drops some trials without a word to searcher or callback. So whatever it has ended is looked for before every
    step: the queue would wait for such a trial forever.
    """

    def __init__(self, coordinator: Coordinator, shutdown: Shutdown) -> None:
        self.coordinator, self.shutdown = coordinator, shutdown
        self._seen, self._live = 0, dict[str, TuneTrial]()

    def on_trial_start(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        del iteration, trials, info
        with self.shutdown.after_errors():
            self.coordinator.begun(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        del iteration, trials, info
        self._lost(trial)

    def on_step_begin(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        del iteration, info
        self._live |= {trial.trial_id: trial for trial in trials[self._seen :]}
        self._seen = len(trials)
        for trial in [each for each in self._live.values() if each.is_finished()]:
            del self._live[trial.trial_id]
            self._lost(trial)

    def _lost(self, trial: TuneTrial) -> None:
        """Unless it has come to an end that we know of."""
        if trial.trial_id not in self.coordinator.attempts:
            return
        with self.shutdown.after_errors():
            if words := _why_not_set_up(trial):
                self.coordinator.received(trial.trial_id, [], words, "unfit")
            self.coordinator.ended(trial.trial_id, died=trial.status == TuneTrial.ERROR)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes it into a snapshot that nothing reads


def _why_not_set_up(trial: TuneTrial) -> str:
    """What a worker said that could not even import or make the trainable; empty if that is not why it ended."""
    file = Path(trial.error_file) if trial.error_file else None
    said = file.read_text(encoding="utf-8", errors="replace") if file and file.is_file() else ""
    return said.strip().splitlines()[-1] if NOT_SET_UP in said else ""


class ReportStopper(Stopper):
    """Tune's stopper sees every result first, whole, and may end a trial: this is how reports come in."""

    def __init__(self, coordinator: Coordinator, shutdown: Shutdown) -> None:
        self.coordinator, self.shutdown = coordinator, shutdown

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        with self.shutdown.after_errors():
            reports = map(Report.from_dict, result.get("reports", ()))
            failed, fault = result.get("failed", ""), result.get("fault", "own")
            position = Position.from_dict(result["position"]) if result.get("position") else None
            stop = self.coordinator.received(trial_id, reports, failed, fault, position=position)
            return stop or bool(self.shutdown)
        return True

    def stop_all(self) -> bool:
        return self.shutdown.overdue

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes it into a snapshot that nothing reads


@contextlib.contextmanager
def connected(address: str | None, early: LocalRay | None = None) -> Iterator[None]:
    """Ray at `address`, the one that was begun `early`, or started here; one that this process uses already stays."""
    if address is None and ray.is_initialized():
        yield
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # how trials end is the coordinator's to tell
    # Ray tells of lost workers; a command's output is its result
    with contextlib.redirect_stdout(sys.stderr), _started(address, early):
        try:
            yield
        finally:
            ray.shutdown()  # tells what it held back
            if early:
                early.leave()  # it ends while the result is written


@contextlib.contextmanager
def _started(address: str | None, early: LocalRay | None) -> Iterator[None]:
    """Connected to the Ray at `address`, or to a local one; what was not begun early ends with the block."""
    with contextlib.ExitStack() as held:
        for left in reversed(range(1 if address else START_TRIES)):
            try:
                if address is None:
                    held.close()  # the one that did not start
                    own, early = early or held.enter_context(local_ray()), None
                    own.wait()
                    with own.introduced() as folder:
                        _init(folder=folder)
                else:
                    _check_reachable(address)
                    _init(address=address)
                break
            except Exception as error:  # Ray raises many kinds here, and tells the reason only in words
                if not left:
                    raise _refusal(address, str(error).strip() or type(error).__name__) from None
        yield


def _refusal(address: str | None, reason: str) -> Co2lError:
    where = address or "this machine"
    if reason.startswith("Version mismatch"):  # Ray writes the versions into the lines that follow
        return Co2lError(" ".join(reason.split()), where=where, fix="install the cluster's versions here")
    fix = "check --address, and `ray status`" if address else "run the same command again"
    return Co2lError(f"Ray cannot be reached ({headline(reason)})", where=where, fix=fix)


def _check_reachable(address: str) -> None:
    """Where nobody listens Ray itself would wait for minutes and fill the screen."""
    if ":" in address:
        host, _, port = address.rpartition("/")[2].rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


def _init(*, address: str | None = None, folder: str | None = None) -> None:
    before = signal.getsignal(signal.SIGTERM)
    ray.init(address=address, _temp_dir=folder, log_to_driver=False, logging_level=logging.ERROR)
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray takes it for itself, and would end without saving anything


def run_trials(
    coordinator: Coordinator,
    assign: Assign,
    asked_to_stop: Callable[[], bool],
    *,
    cpus: float,
    gpus: float,
    max_concurrent: int | None,
    time_budget: float | None,
    trainable: type[TrialTrainable] = TrialTrainable,
) -> None:
    """Run trials until none is left, the time is up, or the search is asked to stop or cannot go on."""
    shutdown = Shutdown(lambda: asked_to_stop() or bool(coordinator.trouble), time_budget)
    searcher = TrialSearcher(coordinator, assign, shutdown, max_concurrent or slots(cpus, gpus))
    with private_folder() as folder:
        try:
            tune.run(
                tune.with_resources(trainable, {"cpu": cpus, "gpu": gpus}),
                name="trials",
                storage_path=str(folder.path),
                num_samples=-1,
                search_alg=searcher,
                stop=ReportStopper(coordinator, shutdown),
                callbacks=[TrialCallback(coordinator, shutdown)],
                max_concurrent_trials=max_concurrent or 0,
                reuse_actors=True,
                max_failures=0,
                raise_on_failed_trial=False,
                verbose=0,
            )
        finally:
            with shutdown.after_errors():
                coordinator.stop()
    if shutdown.error:
        raise shutdown.error
