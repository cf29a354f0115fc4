"""One continual run: a chain of stages, each a pure function of its parent's state, its settings and the seed.

`run` yields events and can be closed between any two of them: what was learned so far is in the store, and the next
`run` of the same configuration continues from there, bit for bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.data.streams import TaskStream
from co2l.errors import Co2lError
from co2l.learning import export, metrics
from co2l.learning.collapse import dead_features
from co2l.learning.config import RunConfig, folder
from co2l.learning.device import numerics, prepare
from co2l.learning.events import EpochDone, Evaluating, Event, Result, RunDone, StateSaved, StepDone, TaskDone
from co2l.learning.methods import METHODS
from co2l.learning.methods.base import Method
from co2l.learning.saving import BackgroundSaver
from co2l.learning.schedule import Constant, Schedule
from co2l.learning.store import Store
from co2l.learning.weights import digest


def run(
    config: RunConfig,
    tasks: TaskStream,
    store: Store,
    *,
    device: torch.device,
    save_every: float = 60.0,
    retain: Callable[[str], bool] = lambda _: True,
    exports: Store | None = None,
) -> Generator[Event, None, None]:
    """Learn all tasks in order and evaluate after each; what the store already has is not computed again.

    The final classifier and its features of some examples are saved in the store `exports`, if there is one.
    Mid-stage states are saved every `save_every` seconds. The state of a finished stage is deleted once the next one
    is stored, unless `retain` returns True for its key.
    """
    prepare(device, config.settings.precision)
    method = METHODS[config.method](config.settings_of(0), tasks.benchmark, config.seed, device)
    return _Run(config, tasks, store, device, save_every, retain, exports, method).events()


@dataclass
class _Run:
    config: RunConfig
    tasks: TaskStream
    store: Store
    device: torch.device
    save_every: float
    retain: Callable[[str], bool]
    exports: Store | None
    method: Method
    measured: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)  # by task and probe
    held: tuple[int, Examples] | None = None  # a stage and its training examples
    dead: list[float | None] = field(default_factory=list)  # percent of the features, after each task
    at: int = -1  # the method's state is that after this task
    saved: float = 0.0  # when its state was last saved, in seconds

    def __post_init__(self) -> None:
        self.last = len(self.tasks) - 1
        self.settings = self.config.settings_of(0)  # of the method, now
        self.keys = self.config.stage_keys(len(self.tasks))
        computes = numerics(self.device)
        self.folders = [folder(self.tasks.fingerprint_of(t), computes) for t in range(len(self.tasks))]
        self.saver = BackgroundSaver(self.store)

    def events(self) -> Generator[Event, None, None]:
        """Algorithm 1: learn one task after the other. Around it: evaluation, export and pruning."""
        self._check_batch_size()
        with self.saver:
            stored = max((t for t in range(len(self.tasks)) if self.store.has_state(self._key(t))), default=-1)
            for t in range(len(self.tasks)):
                probes, exporting, trained = self._unmeasured(t), self._unexported(t), 0
                dead = self._dead(t)
                unwatched = dead is None and self.method.encoder is not None
                if probes or exporting or unwatched or (t > stored and not self._probes(t)):
                    trained = yield from self._reach(t)
                if unwatched:
                    dead = self._watch(t)
                for probe in probes:
                    yield Evaluating(t, probe)
                    self._evaluate(t, probe)
                if exporting:
                    self._export(t)
                if t == self.last:
                    self._prune(t)
                self.dead.append(dead)
                yield TaskDone(t, self._row(t), trained, dead)
            yield RunDone(self._result())

    def _check_batch_size(self) -> None:
        size = max(self.config.settings_of(t).batch_size for t in range(len(self.tasks)))
        n = len(self._examples(0))
        if size > n:
            raise Co2lError(
                f"batch_size={size} is larger than the first task ({n} examples)",
                where=self.config.benchmark,
                fix="choose a smaller batch_size",
            )

    # Learning

    def _reach(self, t: int) -> Generator[Event, None, int]:
        """Bring the method to the end of task `t`, from the store or by learning; returns the epochs trained."""
        if (state := self.store.load_state(self._key(t))) is not None:
            self._use_settings_of(t)
            self.method.load_state(state)
            self.at = t
            return 0
        epochs = 0
        if self.at != t - 1:
            epochs += yield from self._reach(t - 1)
        self._use_settings_of(t)
        if t > 0 and not self.method.jointly:
            self.method.end_task(t - 1, self._examples(t - 1))
            self.tasks.forget(t - 1)
        epochs += yield from self._learn(t)
        self.saver.wait()
        self.store.save_state(self._key(t), self.method.state())
        self.store.delete_state(self._key(t), partial=True)
        self._prune(t - 1)
        self.at = t
        yield StateSaved(t, self.method.schedule(t).epochs)
        return epochs

    def _use_settings_of(self, t: int) -> None:
        """Go on with the settings of task `t`, by the method that a new process would make and its state."""
        settings = self.config.settings_of(t)
        if settings != self.settings:
            method = METHODS[self.config.method](settings, self.tasks.benchmark, self.config.seed, self.device)
            method.load_state(self.method.state())
            self.method, self.settings = method, settings

    def _learn(self, t: int) -> Generator[Event, None, int]:
        """Algorithm 1, lines 4 to 19: the epochs of one task. (Line 20, the buffer, is the method's `end_task`.)"""
        self.method.begin_task(t, self._examples(t))  # D ← {(x, y)} ∪ M
        schedule = self.method.schedule(t)
        first, step, totals = self._resume(t)
        for epoch in range(first, schedule.epochs + 1):
            yield from self._epoch(t, epoch, schedule, step, totals)
            step, totals = 0, {}
        return schedule.epochs - first + 1

    def _epoch(
        self, t: int, epoch: int, schedule: Schedule | Constant, start: int, totals: dict[str, Tensor]
    ) -> Generator[Event, None, None]:
        """The steps of an epoch from `start` on; `totals` are the sums of its losses before that."""
        batches = self.method.draw(epoch)
        for i in range(start, len(batches)):
            lr = schedule.lr(epoch, i, len(batches))
            randomness = generator_for(self.config.seed, "task", t, "epoch", epoch, "step", i, device=self.device)
            losses = self.method.step(batches[i], lr, randomness)  # ψ ← ψ − η ∇L
            for name, loss in losses.items():
                totals[name] = totals[name] + loss if name in totals else loss
            views = self.method.views(batches[i])
            done = StepDone(t, epoch, schedule.epochs, i + 1, len(batches), views, losses)
            yield from self._leavable(done, t, epoch, i + 1, totals)
            if (whole := self.saver.finished()) is not None:
                yield from self._leavable(StateSaved(t, whole), t, epoch, i + 1, totals)
            if time.monotonic() - self.saved > self.save_every and not self.saver.busy:
                self.saver.begin(self._key(t), self._partial(t, epoch, i + 1, totals), epoch - 1)
        means = {name: total / len(batches) for name, total in self._finite(t, epoch, totals).items()}
        last = schedule.lr(epoch, len(batches) - 1, len(batches))
        yield from self._leavable(EpochDone(t, epoch, schedule.epochs, means, last), t, epoch + 1, 0, {})

    def _leavable(self, event: Event, t: int, *continued: Any) -> Generator[Event, None, None]:
        """The event. If the caller leaves the run here, the next one continues where `continued` says."""
        try:
            yield event
        except GeneratorExit:
            self.saver.wait()
            self.store.save_state(self._key(t), self._partial(t, *continued), partial=True)
            raise

    def _resume(self, t: int) -> tuple[int, int, dict[str, Tensor]]:
        """Where task `t` continues: epoch (1-based), step, and the sums of the epoch's losses so far."""
        self.saved = time.monotonic()
        if (partial := self.store.load_state(self._key(t), partial=True)) is None:
            return 1, 0, {}
        self.method.load_state(partial["method"])
        totals = {name: loss.to(self.device) for name, loss in partial["totals"].items()}
        return partial["epoch"], partial["step"], totals

    def _partial(self, t: int, epoch: int, step: int, totals: dict[str, Tensor]) -> dict[str, Any]:
        """The middle of stage `t`, to be saved now."""
        self._finite(t, epoch, totals)
        self.saved = time.monotonic()
        return {"method": self.method.state(), "epoch": epoch, "step": step, "totals": totals}

    def _finite(self, t: int, epoch: int, totals: Mapping[str, Tensor]) -> dict[str, float]:
        values = {name: float(total) for name, total in totals.items()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise Co2lError(
                    f"the {name} loss became {value}",
                    where=f"task {t + 1}, epoch {epoch}",
                    fix=f"lower eta (now {self.settings.eta}); what was stored before stays",
                )
        return values

    def _examples(self, t: int) -> Examples:
        """The training examples of stage `t`; only one stage's are held, as a rotated task is a copy."""
        if self.held is None or self.held[0] != t:
            everything = self.method.jointly and t == self.last
            self.held = t, (self.tasks.everything() if everything else self.tasks.train(t)).to(self.device)
        return self.held[1]

    # Evaluation

    def _watch(self, t: int) -> float:
        """Measure whether the representation collapsed in task `t`."""
        assert self.method.encoder is not None
        share = dead_features(self.method.encoder, self._examples(t), self.tasks.benchmark)
        self.store.save_measurement(self._dead_key(t), {"dead": share})
        return share

    def _dead(self, t: int) -> float | None:
        measured = self.store.load_measurement(self._dead_key(t))
        return None if measured is None else float(measured["dead"])

    def _probes(self, t: int) -> list[str]:
        """The probes that measure accuracies after task `t`."""
        every_task = self.method.matrix_probe(self.config.settings)
        final = {self.method.final_probe()} if t == self.last else set()
        return sorted(final | ({every_task} if every_task else set()))

    def _unmeasured(self, t: int) -> list[str]:
        """The probes among them whose accuracies are not in the store."""
        for probe in self._probes(t):
            if (measurement := self.store.load_measurement(self._row_key(t, probe))) is not None:
                self.measured[t, probe] = measurement
        return [probe for probe in self._probes(t) if (t, probe) not in self.measured]

    def _evaluate(self, t: int, probe: str) -> None:
        evaluated = self.method.revisits(t) or range(t + 1)
        row = metrics.accuracies(self._classifier(t, probe), self.tasks, evaluated, self.device)
        self.measured[t, probe] = {"accuracies": row, "weights": digest(self.method.state())}
        self.store.save_measurement(self._row_key(t, probe), self.measured[t, probe])

    def _classifier(self, t: int, probe: str) -> nn.Sequential:
        others = [other for other in self.method.revisits(t) or () if other != t]
        revisited = [self.tasks.revisit(other).to(self.device) for other in others]
        return self.method.classifier(t, self._examples(t), probe, revisited)

    def _row(self, t: int) -> metrics.Row | None:
        """The accuracies after task `t` that belong to the matrix."""
        probe = self.method.matrix_probe(self.config.settings)
        row: metrics.Row | None = self.measured[t, probe]["accuracies"] if probe else None
        return row

    def _result(self) -> Result:
        rows = [row for t in range(len(self.tasks)) if (row := self._row(t)) is not None]
        matrix = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
        probe, matrix_probe = self.method.final_probe(), self.method.matrix_probe(self.config.settings)
        final = self.measured[self.last, probe]
        exported = {kind: self._export_key(kind) for kind in export.KINDS} if self.exports is not None else {}
        dead = tuple(self.dead) if any(share is not None for share in self.dead) else ()
        return Result(final["accuracies"], matrix, final["weights"], probe, matrix_probe, exported, dead)

    # Export

    def _unexported(self, t: int) -> bool:
        if t != self.last or self.exports is None:
            return False
        return not all(self.exports.has_state(self._export_key(kind)) for kind in export.KINDS)

    def _export(self, t: int) -> None:
        """Save the final classifier, which is trained a second time to the same bits, and its features."""
        assert self.exports is not None
        classifier = self._classifier(t, self.method.final_probe())
        buffered = self.method.buffered()
        self.exports.save_state(self._export_key("classifier"), dict(classifier.state_dict()))
        features = export.features(classifier[0], self.tasks, buffered, seed=self.config.seed, device=self.device)
        self.exports.save_state(self._export_key("features"), features)

    # Pruning

    def _prune(self, t: int) -> None:
        """Delete the state after task `t` unless it is to be retained."""
        if t >= 0 and not self.retain(self.keys[t]):
            self.store.delete_state(self._key(t))

    # Keys in the store

    def _key(self, t: int) -> str:
        return f"{self.folders[t]}/{self.keys[t]}"

    def _row_key(self, t: int, probe: str) -> str:
        return f"{self.folders[t]}/{self.config.row_key(t, probe)}"

    def _dead_key(self, t: int) -> str:
        return f"{self.folders[t]}/{self.config.dead_key(self.keys[t])}"

    def _export_key(self, kind: str) -> str:
        return self._row_key(self.last, f"{self.method.final_probe()} {kind}")
