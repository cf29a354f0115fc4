"""Whether a machine computes as it should: run this first on a new card, before you trust it with a search.

Exactness across a killed process, waits for the device, speed next to the bare model, memory next to the estimate. What
needs CUDA is not run where there is none, and says so.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile

from co2l.cluster.steps import RATE, bare_steps, second_task, whole_steps
from co2l.data.randomness import generator_for
from co2l.errors import headline
from co2l.learning.cards import GIB, of_product
from co2l.learning.config import RunConfig
from co2l.learning.device import choose_device
from co2l.learning.events import Event, RunDone, StateSaved, StepDone
from co2l.learning.footprint import footprint
from co2l.learning.methods import configure
from co2l.learning.methods.co2l import Co2L
from co2l.learning.run import run
from co2l.learning.store import Store
from co2l.search.space.forecast import seconds

NO_CUDA = "no CUDA: not run"
TOLERANCE = 0.15  # of the estimate of memory
SLOWEST = 0.5  # of the bare model's speed: below, something stands in the way
SETTINGS = {"E_0": 1, "E_t": 4, "batch_size": 64, "buffer_size": 50, "matrix_probe": "none", "probe_epochs": 1}
NETWORKS: dict[str, dict[str, Any]] = {"digits_conv": {}, "resnet18": {"encoder": "resnet18", "width": 16}}
ROUNDS, SECONDS = 3, 0.6  # of each contender


@dataclass(frozen=True)
class Case:
    """Steps of Co²L's second task."""

    benchmark: str
    batch_size: int
    width: int = 64

    @property
    def n(self) -> int:
        """The examples of a task."""
        return 4 * self.batch_size

    @property
    def config(self) -> RunConfig:
        settings = {"batch_size": self.batch_size, "buffer_size": 200, "width": self.width}
        return configure(self.benchmark, "co2l", settings)

    def begun(self, device: torch.device) -> Co2L:
        return second_task(self.benchmark, self.batch_size, self.n, device, width=self.width)


LARGE = Case("seq_cifar10", 256), Case("r_mnist", 512)  # what a card is worth testing with
SMALL = Case("seq_cifar10", 8, width=16), Case("r_mnist", 64)  # what a CPU does in seconds


@dataclass(frozen=True)
class Outcome:
    what: str
    state: Literal["ok", "wrong", "not run"]
    text: str
    figures: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def selftest(device: torch.device) -> Iterator[Outcome]:
    """The outcomes one by one, as they come; a test that breaks is wrong and does not stop the others."""
    on_card = device.type == "cuda"
    yield card(device) if on_card else Outcome("card", "not run", NO_CUDA)
    for network in NETWORKS:
        yield _tried("exactness", partial(exactness, network, device))
    for case in LARGE if on_card else SMALL:
        waited = Outcome("waits", "not run", f"{case.benchmark}: {NO_CUDA}")
        yield _tried("waits", partial(waits, case, device)) if on_card else waited
        yield _tried("speed", partial(speed, case, device))
        yield _tried("memory", partial(memory, case, device))


def _tried(what: str, test: Callable[[], Outcome]) -> Outcome:
    try:
        return test()
    except Exception as error:  # the machine under test is what we do not trust
        return Outcome(what, "wrong", f"{type(error).__name__}: {headline(error)}")


def card(device: torch.device) -> Outcome:
    """Whether the table of cards knows this one, and has its memory right."""
    found = torch.cuda.get_device_properties(device)
    known, gib = of_product(found.name), found.total_memory / GIB
    figures = {"product": found.name, "gib": round(gib, 2)}
    if known is None:
        return Outcome("card", "ok", f"{found.name}, {gib:.1f} GiB; not in the table of co2l.learning.cards", figures)
    right = abs(known.gib / gib - 1) < 0.03
    text = f"{found.name}, {gib:.1f} GiB; the table has {known.gib:g} for {known.name}"
    return Outcome("card", "ok" if right else "wrong", text, figures)


def exactness(network: str, device: torch.device) -> Outcome:
    """The same bits from a run without interruption and from one that was killed and continued by another process."""
    config = configure("seq_digits", "co2l", {**SETTINGS, **NETWORKS[network]})
    with tempfile.TemporaryDirectory() as folder:
        whole = _finished(config, f"{folder}/whole", device)
        killed = killed_run(config, f"{folder}/killed", str(device))
        resumed = _finished(config, f"{folder}/killed", device)
    same = whole == resumed and killed
    text = f"{network}: killed in task 2 and continued: {'the same' if same else 'OTHER'} bits ({whole[:12]})"
    if not killed:
        text = f"{network}: the run to be killed ended by itself"
    return Outcome("exactness", "ok" if same else "wrong", text, {"whole": whole, "resumed": resumed})


def killed_run(config: RunConfig, folder: str, device: str) -> bool:
    """Start the run in another process, which is killed in the middle of a step's work; whether it was."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_until_killed, args=(config, folder, device))
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _until_killed(config: RunConfig, folder: str, device: str) -> None:
    saved = 0  # the task in whose middle a state was saved, in the background
    for event in _run(config, folder, choose_device(device)):
        if isinstance(event, StateSaved) and event.epoch < config.epochs[event.task]:
            saved = event.task
        if isinstance(event, StepDone) and event.task == saved > 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _finished(config: RunConfig, folder: str, device: torch.device) -> str:
    (result,) = [event.result for event in _run(config, folder, device) if isinstance(event, RunDone)]
    return result.weights


def _run(config: RunConfig, folder: str, device: torch.device) -> Iterator[Event]:
    tasks = config.open_stream(Path(folder))
    return run(config, tasks, Store(folder), device=device, save_every=0.0)  # saves after every step


def waits(case: Case, device: torch.device) -> Outcome:
    """How often a step makes the host wait for the device, by CUDA's own count."""
    steps = whole_steps(case.begun(device))
    for _ in range(2):  # the first ones build caches
        next(steps)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            next(steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    lines = sorted({f"{Path(each.filename).name}:{each.lineno}" for each in seen if "synchroniz" in str(each.message)})
    text = f"{case.benchmark}: {'none in a step' if not lines else 'at ' + ', '.join(lines)}"
    return Outcome("waits", "wrong" if lines else "ok", text, {"lines": lines})


def speed(case: Case, device: torch.device) -> Outcome:
    """Views per second of whole steps and of the bare model, in turns; on a card, the forecast beside it."""
    contenders = {
        "bare": bare_steps(case.begun(device), case.batch_size),
        "whole": whole_steps(case.begun(device)),
    }
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for contender, steps in contenders.items():
            found[contender].append(_views_per_second(steps, device))
    bare, whole = (statistics.median(found[contender]) for contender in ("bare", "whole"))
    figures = {"bare": bare, "whole": whole, "ratio": whole / bare}
    text = f"{case.benchmark}: {whole:,.0f} views/s, {whole / bare:.2f} of the bare model's"
    known = of_product(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    if known:
        figures["forecast"] = 2 * case.batch_size / seconds(footprint(case.config, 1).kernels, known, "fp32")
        text += f", {whole / figures['forecast']:.2f} of the forecast"
    return Outcome("speed", "ok" if whole / bare >= SLOWEST else "wrong", text, figures)


def _views_per_second(steps: Iterator[int], device: torch.device) -> float:
    next(steps)
    _wait(device)
    started, views = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS or not views:
        views += next(steps)
        _wait(device)
    return views / (time.perf_counter() - started)


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()


def memory(case: Case, device: torch.device) -> Outcome:
    """The most bytes that torch's allocator handed out at once, next to the estimate."""

    def work() -> None:
        method = case.begun(device)
        batch = method.draw(1)[0]
        for i in range(2):
            method.step(batch, RATE, generator_for(0, "step", i, device=device))

    estimated, measured = footprint(case.config, 1, examples=case.n).peak, allocated(work, device)
    ratio = estimated / measured
    sizes = f"estimate {estimated / 2**20:,.0f} MiB, measured {measured / 2**20:,.0f} MiB, ratio {ratio:.2f}"
    figures = {"estimated": estimated, "measured": measured, "ratio": ratio}
    return Outcome("memory", "ok" if abs(ratio - 1) <= TOLERANCE else "wrong", f"{case.benchmark}: {sizes}", figures)


def allocated(work: Callable[[], None], device: torch.device) -> int:
    """The most bytes at once that torch's allocator hands out meanwhile, whatever the process held before."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak
