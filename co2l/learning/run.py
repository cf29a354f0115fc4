"""One continual run: a chain of stages, each a pure function of its parent's state, its settings and the seed.

`run` yields events and can be left between any two of them: what was learned so far is in the store, and the
next `run` of the same configuration goes on from there, bit for bit.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from co2l.data.randomness import stream
from co2l.data.streams import Samples, TaskStream
from co2l.errors import Co2lError
from co2l.learning import export, metrics
from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS
from co2l.learning.methods.base import Classifier, Method
from co2l.learning.store import Store


@dataclass(frozen=True)
class StepDone:
    task: int  # 0-based, as everywhere in the code; shown to people from 1
    epoch: int
    epochs: int
    step: int
    steps: int
    views: int
    losses: Mapping[str, Tensor]  # still on the device: reading one waits for it


@dataclass(frozen=True)
class EpochDone:
    task: int
    epoch: int
    epochs: int
    losses: Mapping[str, float]
    lr: float


@dataclass(frozen=True)
class Evaluating:
    task: int
    probe: str


@dataclass(frozen=True)
class TaskDone:
    task: int
    row: metrics.Row | None  # held-out accuracies, unless the matrix was switched off
    epochs_trained: int  # 0 when the stage came from the store


@dataclass(frozen=True)
class Result:
    """What a run found: the same for the same configuration and data, however it was computed."""

    final: metrics.Row  # accuracies after the last task, by the method's final probe
    matrix: Mapping[str, metrics.Matrix]  # per scenario; empty if it was switched off
    weights: str  # SHA-256 of the final state
    exports: Mapping[str, str] = field(default_factory=dict)  # the store's keys of what was asked for, by its name

    @property
    def score(self) -> float:
        return metrics.score(self.final)

    def as_dict(self) -> dict[str, Any]:
        return {
            "score": self.score,
            "average": {name: metrics.mean(accuracy) for name, accuracy in self.final.items()},
            "final": self.final,
            "matrix": self.matrix,
            "forgetting": {name: metrics.forgetting(m) for name, m in self.matrix.items()},
            "backward_transfer": {name: metrics.backward_transfer(m) for name, m in self.matrix.items()},
            "weights": self.weights,
            **({"exports": dict(self.exports)} if self.exports else {}),
        }


@dataclass(frozen=True)
class RunDone:
    result: Result


Event = StepDone | EpochDone | Evaluating | TaskDone | RunDone


def run(
    config: RunConfig,
    tasks: TaskStream,
    store: Store,
    *,
    device: torch.device,
    save_every: float = 60.0,
    keep: Callable[[str], bool] = lambda _: True,
    exports: Store | None = None,
) -> Generator[Event, None, None]:
    """Learn all tasks in order and evaluate after each; whatever the store already has is not done again.

    The final classifier and what it makes of a few samples are left in the store `exports`, if there is one.
    Mid-stage states are saved every `save_every` seconds. A finished stage's state is deleted once its successor is
    stored unless `keep` wants its key.
    """
    return _Run(config, tasks, store, device, save_every, keep, exports).events()


@dataclass
class _Run:
    config: RunConfig
    tasks: TaskStream
    store: Store
    device: torch.device
    save_every: float
    keep: Callable[[str], bool]
    exports: Store | None
    method: Method = field(init=False)
    keys: list[str] = field(init=False)  # of the stages
    held: tuple[int, Samples] | None = None
    at: int = -1  # the task whose end the method's state is at

    def events(self) -> Generator[Event, None, None]:
        settings = self.config.settings
        n = len(self._samples(0))
        if settings.batch_size > n:
            raise Co2lError(
                f"batch_size={settings.batch_size} is larger than the first task ({n} samples)",
                where=self.config.benchmark,
                fix="choose a smaller batch_size",
            )
        self.method = METHODS[self.config.method](settings, self.tasks.benchmark, self.config.seed, self.device)
        self.keys = self.config.stage_keys(len(self.tasks))
        last = len(self.tasks) - 1
        stored = max((t for t in range(last + 1) if self.store.has_state(self._key(t))), default=-1)
        matrix: list[metrics.Row] = []
        final: dict[str, Any] = {}
        for t in range(len(self.tasks)):
            wanted = {settings.matrix_probe} - {"none"} | ({self.method.final_probe()} if t == last else set())
            records = {probe: self.store.load_record(self._row_key(t, probe)) for probe in sorted(wanted)}
            trained = 0
            unexported = t == last and self.exports is not None and not self._exported()
            if None in records.values() or unexported or (not wanted and t > stored):
                trained = yield from self._reach(t)
                for probe in sorted(wanted):
                    if records[probe] is None:
                        yield Evaluating(t, probe)
                        records[probe] = self._evaluate(t, probe)
                if unexported:
                    self._export(t)
            if t == last:
                final = records[self.method.final_probe()] or {}
                self._prune(t)
            row = (records.get(settings.matrix_probe) or {}).get("accuracies")
            if row is not None:
                matrix.append(row)
            yield TaskDone(t, row, trained)
        by_scenario = {name: [row[name] for row in matrix] for name in (matrix[0] if matrix else {})}
        exported = {}
        if self.exports is not None and self._exported():  # not every method has a classifier that can be
            exported = {kind: self._export_key(kind) for kind in export.KINDS}
        yield RunDone(Result(final["accuracies"], by_scenario, final["weights"], exported))

    def _reach(self, t: int) -> Generator[Event, None, int]:
        """Bring the method to the end of task `t`, from the store or by learning; returns the epochs trained."""
        state = self.store.load_state(self._key(t))
        if state is not None:
            self.method.load_state(state)
            self.at = t
            return 0
        epochs = 0
        if self.at != t - 1:
            epochs += yield from self._reach(t - 1)
        if t > 0:
            self.method.end_task(t - 1, self._samples(t - 1))
            self.tasks.forget(t - 1)
        epochs += yield from self._learn(t, self._samples(t))
        self.store.save_state(self._key(t), self.method.state())
        self.store.delete_state(self._key(t), partial=True)
        self._prune(t - 1)
        self.at = t
        return epochs

    def _learn(self, t: int, task: Samples) -> Generator[Event, None, int]:
        """Algorithm 1, lines 4 to 19: the epochs of one task. (Line 20, the buffer, is the method's `end_task`.)"""
        method, seed = self.method, self.config.seed
        method.begin_task(t, task)  # D ← {(x, y)} ∪ M
        schedule = method.schedule(t)
        epoch, step, totals = self._resume(t)
        first, saved = epoch, time.monotonic()
        for e in range(epoch, schedule.epochs + 1):
            batches = method.draw(e)
            for i in range(step, len(batches)):
                lr = schedule.lr(e, i, len(batches))
                randomness = stream(seed, "task", t, "epoch", e, "step", i, device=self.device)
                losses = method.step(batches[i], lr, randomness)  # ψ ← ψ − η ∇L
                for name, loss in losses.items():
                    totals[name] = totals[name] + loss if name in totals else loss
                try:
                    yield StepDone(t, e, schedule.epochs, i + 1, len(batches), 2 * len(batches[i]), losses)
                except GeneratorExit:  # the caller leaves: the next one goes on right here
                    self._save(t, e, i + 1, totals)
                    raise
                if time.monotonic() - saved > self.save_every:
                    self._save(t, e, i + 1, totals)
                    saved = time.monotonic()
            means = {name: total / len(batches) for name, total in self._finite(t, e, totals).items()}
            yield EpochDone(t, e, schedule.epochs, means, schedule.lr(e, len(batches) - 1, len(batches)))
            step, totals = 0, {}
        return schedule.epochs - first + 1

    def _resume(self, t: int) -> tuple[int, int, dict[str, Tensor]]:
        """Where to go on in task `t`: epoch (1-based), step, and the epoch's losses so far."""
        partial = self.store.load_state(self._key(t), partial=True)
        if partial is None:
            return 1, 0, {}
        self.method.load_state(partial["method"])
        totals = {name: loss.to(self.device) for name, loss in partial["totals"].items()}
        return partial["epoch"], partial["step"], totals

    def _save(self, t: int, epoch: int, step: int, totals: dict[str, Tensor]) -> None:
        self._finite(t, epoch, totals)
        state = {"method": self.method.state(), "epoch": epoch, "step": step, "totals": totals}
        self.store.save_state(self._key(t), state, partial=True)

    def _finite(self, t: int, epoch: int, totals: Mapping[str, Tensor]) -> dict[str, float]:
        values = {name: float(total) for name, total in totals.items()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise Co2lError(
                    f"the {name} loss became {value}",
                    where=f"task {t + 1}, epoch {epoch}",
                    fix=f"lower eta (now {self.config.settings.eta}); what was stored before stays",
                )
        return values

    def _evaluate(self, t: int, probe: str) -> dict[str, Any]:
        judged = self.method.revisits(t) or range(t + 1)
        row = metrics.accuracies(self._classifier(t, probe), self.tasks, judged, self.device)
        record = {"accuracies": row, "weights": digest(self.method.state())}
        self.store.save_record(self._row_key(t, probe), record)
        return record

    def _classifier(self, t: int, probe: str) -> Classifier:
        others = [other for other in self.method.revisits(t) or () if other != t]
        revisited = [(other, self.tasks.revisit(other).to(self.device)) for other in others]
        return self.method.classifier(t, self._samples(t), probe, revisited)

    def _exported(self) -> bool:
        return self.exports is not None and all(self.exports.has_state(self._export_key(kind)) for kind in export.KINDS)

    def _export(self, t: int) -> None:
        """The classifier is trained a second time, to the same bits."""
        assert self.exports is not None
        classifier = self._classifier(t, self.method.final_probe())
        if not isinstance(classifier, nn.Sequential):
            return
        buffered = self.method.buffered()
        self.exports.save_state(self._export_key("classifier"), dict(classifier.state_dict()))
        looked_at = export.features(classifier[0], self.tasks, buffered, seed=self.config.seed, device=self.device)
        self.exports.save_state(self._export_key("features"), looked_at)

    def _samples(self, t: int) -> Samples:
        """The training samples of task `t`; only one task's are held, as a rotated one is a copy of its own."""
        if self.held is None or self.held[0] != t:
            self.held = t, self.tasks.train(t).to(self.device)
        return self.held[1]

    def _prune(self, t: int) -> None:
        if t >= 0 and not self.keep(self.keys[t]):
            self.store.delete_state(self._key(t))

    def _key(self, t: int) -> str:
        return f"{self.tasks.fingerprint[:16]}/{self.keys[t]}"

    def _export_key(self, kind: str) -> str:
        return self._row_key(len(self.tasks) - 1, f"{self.method.final_probe()} {kind}")

    def _row_key(self, t: int, probe: str) -> str:
        return f"{self.tasks.fingerprint[:16]}/{self.config.row_key(t, probe)}"


def digest(state: Mapping[str, Any]) -> str:
    """SHA-256 over all tensors of a state, in the order of their names."""
    total = hashlib.sha256()

    def add(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name in sorted(value):
                add(f"{path}/{name}", value[name])
        elif isinstance(value, Tensor):
            total.update(f"{path} {value.dtype} {tuple(value.shape)}".encode())
            total.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        else:
            total.update(f"{path} {value!r}".encode())

    add("", state)
    return total.hexdigest()
