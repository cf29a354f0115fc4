"""How a search grows with its trials, simulated, without training or Ray.

    python benchmarks/scale.py [--rounds 3]
    python benchmarks/scale.py --watched
    python benchmarks/scale.py --suggesting
    python benchmarks/scale.py --search random tpe auto [--trials 10000]

The first compares 10,000 trials with 1,000: the CPU time of both, their ratio (the target is at most 12) and the growth
of peak memory (the target is less than 200 MB). Every round compares a search of 10,000 with the mean of five of 1,000
before it and five after it.

The second is a grid of 2,000 trials with its record and MLflow in SQLite files, as on one machine, while `mlflow ui`
serves the same file and is asked for the study's runs five times a second. Prints the driver's CPU time per trial and
its memory for every 200 trials (the target is a flat line), and exits with 1 if a run or result is missing in MLflow,
or if the driver or the UI met a locked database.

The third is the CPU time of a suggestion: for `random` per point of so many, which are drawn at once; for the others by
how many points were tried before, the first suggestion after a start, and the median of the next five.

The last simulates whole searches of 10,000 trials in 16 slots: the CPU milliseconds of a suggestion, and of all else
that the driver does for a trial (coordinator, queue, record), as means over every tenth of the suggestions (the target
is a flat line). `auto` is thaw on a grid of 10,000 trials, which it pauses and continues after every task; what it
decides then is part of all else, and `--epochs` ends it early.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from co2l.search.algorithms.drawing import Drawing
from co2l.search.record.entries import Entry
from co2l.search.record.study import StudyRecord
from co2l.search.running.queue import Signal
from co2l.search.running.simulation import Simulation, accuracy
from co2l.search.space.budget import Budget
from co2l.search.space.space import Space, parse
from co2l.search.space.trial import Trial
from co2l.search.tracking import Tracker

AXES = {name: [0.01 * (i + 1) for i in range(10)] for name in ("eta", "kappa", "kappa_star")}
TRIALS, PARTS, POLLS_PER_SECOND = 2000, 10, 5
DRAWN: dict[str, Any] = {  # two ranges and two lists, with room for 10,000 distinct points and more
    "eta": {"low": 0.001, "high": 1.0, "log": True},
    "tau": {"low": 0.05, "high": 1.0},
    **{name: AXES[name] for name in ("kappa", "kappa_star")},
}
SUGGESTING = {  # points before
    **dict.fromkeys(("random", "tpe", "cmaes", "nsgaii"), (100, 1000, 10_000)),
    "gp": (100, 300, 1000, 10_000),
}
SLOTS = 16


def space_of(seeds: int) -> Space:
    """1,000 trials per seed."""
    return parse({"benchmark": "seq_digits", "axes": AXES, "seeds": list(range(seeds))}, "scale")


def seconds(seeds: int) -> float:
    """CPU time of a search with 1,000 trials per seed and 64 workers."""
    space = space_of(seeds)
    started = time.process_time()
    record = StudyRecord.open(None, "scale", space)
    Simulation(space, record, workers=64).run()
    assert len(record.finished()) == 1000 * seeds
    return time.process_time() - started


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare(rounds: int) -> None:
    seconds(1)  # late imports belong to neither
    before, ratios = peak_megabytes(), []
    for _ in range(rounds):
        few = [seconds(1) for _ in range(5)]
        many = seconds(10)
        few += [seconds(1) for _ in range(5)]
        ratios.append(many / statistics.mean(few))
        print(
            f"1,000 trials {statistics.mean(few):.2f} s, 10,000 trials {many:.2f} s: {ratios[-1]:.1f} times", flush=True
        )
    print(f"ratio {statistics.median(ratios):.1f} (the target is at most 12)")
    print(f"peak memory {before:,.0f} MB, then {peak_megabytes():,.0f} MB")


def drawn_space(algorithm: str, samples: int) -> Space:
    return parse({"benchmark": "seq_digits", "axes": DRAWN, "algorithm": algorithm, "samples": samples}, "scale")


def suggesting(algorithm: str, tried: int) -> tuple[float, float]:
    """CPU seconds of the first suggestion after so many tried points, and the median of five more."""
    space, entries = drawn_space(algorithm, 20_000), dict[str, Entry]()

    def end(trial: Trial) -> None:
        entries[trial.key] = Entry(trial.key, trial.values, trial.seed, "done", accuracy(trial, 1))

    rng = random.Random(0)
    while len(entries) < tried:
        end(next(space.trials_of(space.draw(rng))))
    drawing, taken = Drawing(space, entries, seed=0), list[float]()
    for _ in range(6):
        started = time.process_time()
        (trial,) = drawing.next()
        taken.append(time.process_time() - started)
        end(trial)
    return taken[0], statistics.median(taken[1:])


def listing(algorithm: str, points: int) -> float:
    """CPU seconds per point of an algorithm that draws all of them at the start."""
    drawing = Drawing(drawn_space(algorithm, points), {}, seed=0)
    started = time.process_time()
    assert sum(1 for _ in drawing.initial()) == points
    return (time.process_time() - started) / points


def compare_algorithms() -> None:
    print("| algorithm | points | ms, first | ms, each |\n|---|---|---|---|")
    for algorithm, sizes in SUGGESTING.items():
        if algorithm == "random":
            for points in sizes:
                print(f"| {algorithm} | {points:,} | – | {1000 * listing(algorithm, points):.1f} |", flush=True)
            continue
        suggesting(algorithm, 20)  # late imports belong to none
        for tried in sizes:
            first, later = suggesting(algorithm, tried)
            print(f"| {algorithm} | {tried:,} | {1000 * first:.1f} | {1000 * later:.1f} |", flush=True)


def searched_space(algorithm: str, trials: int) -> Space:
    """With five tasks: for `auto` and `thaw` a grid of so many trials, a multiple of 1,000, else so many points."""
    settings = {"E_0": 20, "E_t": 10, "matrix_probe": "fast"}
    document: dict[str, Any] = {"benchmark": "seq_digits", "settings": settings, "algorithm": algorithm}
    if algorithm in ("auto", "thaw"):
        axes = {**AXES, "distill_power": AXES["eta"][: trials // 1000]}
        return parse({**document, "axes": axes}, "scale")
    return parse({**document, "axes": DRAWN, "samples": trials}, "scale")


def searching(algorithm: str, trials: int, epochs: int | None) -> tuple[list[float], list[float]]:
    """Of a whole search: the CPU milliseconds of each suggestion, and of what follows until the next one."""
    space = searched_space(algorithm, trials)
    record = StudyRecord.open(None, "scale", space)
    simulation = Simulation(space, record, workers=SLOTS, budget=Budget(epochs))
    ask, asked, others = simulation.coordinator.next, list[float](), list[float]()
    left = time.process_time()

    def timed(attempt_id: str) -> Trial | Signal:
        nonlocal left
        began = time.process_time()
        others.append(1000 * (began - left))
        found = ask(attempt_id)
        left = time.process_time()
        asked.append(1000 * (left - began))
        return found

    simulation.coordinator.next = timed  # type: ignore[method-assign]
    simulation.run()
    return asked, others


def search_all(algorithms: list[str], trials: int, epochs: int | None) -> None:
    for algorithm in algorithms:
        asked, others = searching(algorithm, trials, epochs)
        each = len(asked) // 10
        for what, taken in (("a suggestion", asked), ("all else", others)):
            tenths = [statistics.mean(taken[i * each : (i + 1) * each]) for i in range(10)]
            print(
                f"{algorithm}, {len(asked):,} suggestions, {what}: {' '.join(f'{ms:.1f}' for ms in tenths)} ms",
                flush=True,
            )


class Warned(logging.Handler):
    """Keeps what the driver warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def poll(address: str) -> None:
    """In a process of its own: what the UI asks for, five times a second until it is ended; then how it went."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    asked, refused, slowest = 0, list[str](), 0.0
    query = {"experiment_ids": ["1"], "max_results": 100, "order_by": ["metrics.`val/score` DESC"]}
    while not ended:
        began = time.monotonic()
        request = urllib.request.Request(
            f"{address}/ajax-api/2.0/mlflow/runs/search",
            json.dumps(query).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=30).read()
        except urllib.error.HTTPError as error:
            refused.append(error.read().decode()[:200])
        except OSError as error:
            refused.append(str(error))
        asked += 1
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(max(0.0, 1 / POLLS_PER_SECOND - (time.monotonic() - began)))
    print(json.dumps({"asked": asked, "refused": refused, "slowest": slowest}))


def start_ui(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--port", str(port)]
    with (folder / "ui.log").open("wb") as log:
        ui = subprocess.Popen(
            [*command, "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
        )
    address = f"http://127.0.0.1:{port}"
    while ui.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=2)
            return ui, address
        except OSError:
            time.sleep(0.2)
    sys.exit((folder / "ui.log").read_text())


def watched(folder: Path) -> list[str]:
    """What went wrong."""
    warned, space = Warned(), space_of(TRIALS // 1000)
    logging.getLogger().addHandler(warned)
    uri, troubles = f"sqlite:///{folder}/mlflow.db", set[str]()
    record = StudyRecord.open(f"sqlite:///{folder}/study.db", "scale", space)
    tracker = Tracker.open(uri, "scale", space=space, spool=folder / "spool")
    simulation = Simulation(space, record, workers=8, tracker=tracker)
    length = Simulation(space, StudyRecord.open(None, "scale", space), workers=8).run().ended
    while tracker.waiting:
        time.sleep(0.1)  # for MLflow's tables, which the UI would make as well
    ui, address = start_ui(folder)
    polling = subprocess.Popen([sys.executable, __file__, "--poll", address], stdout=subprocess.PIPE, text=True)
    try:
        done = 0
        for part in range(1, PARTS + 1):
            began, before = time.process_time(), done
            simulation.run(until=length * part / PARTS)
            while tracker.waiting:
                troubles |= {tracker.trouble} - {""}
                time.sleep(0.05)
            done = len(record.finished())
            spent = 1000 * (time.process_time() - began) / max(1, done - before)
            print(f"{done:5} trials: {spent:.0f} ms of CPU per trial, {memory_megabytes():.0f} MB", flush=True)
        tracker.close_study(selected=[], entries=[], shares={}, table=[], cost=record.cost())
        left = tracker.close(60)
    finally:
        polling.terminate()
        polls = json.loads(polling.communicate(timeout=60)[0])
        os.killpg(ui.pid, signal.SIGTERM)
        ui.wait()
    print(f"the UI answered {polls['asked']} polls, the slowest in {polls['slowest']:.1f} s", flush=True)
    wrong = [*warned.said, *troubles, *polls["refused"], *(["reports are left"] if left else [])]
    wrong += [line for line in (folder / "ui.log").read_text().splitlines() if "locked" in line]
    return wrong + missing(uri, record)


def memory_megabytes() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


def missing(uri: str, record: StudyRecord) -> list[str]:
    """Trials without a run, without their score, or with two runs."""
    from mlflow import MlflowClient

    client, runs, token = MlflowClient(uri), [], None
    while True:
        page = client.search_runs(["1"], "tags.`co2l.kind` = 'trial'", max_results=1000, page_token=token)
        runs += page
        token = page.token
        if not token:
            break
    found = {run.data.tags["co2l.trial"]: run.data.metrics.get("val/score") for run in runs}
    wrong = [] if len(runs) == len(found) == TRIALS else [f"{len(runs)} runs of {len(found)} trials"]
    scores = {key: round(entry.score or 0.0, 2) for key, entry in record.entries.items()}  # as MLflow shows them
    return wrong + [key for key, score in scores.items() if found.get(key) != score]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--watched", action="store_true", help="2,000 trials tracked in MLflow beside its busy UI")
    parser.add_argument("--suggesting", action="store_true", help="the time of a suggestion, by points tried before")
    parser.add_argument("--search", nargs="+", metavar="NAME", help="simulate whole searches with these algorithms")
    parser.add_argument("--trials", type=int, default=10_000, help="of these, a multiple of 1,000 (default: 10,000)")
    parser.add_argument("--epochs", type=int, help="a budget for these searches")
    parser.add_argument("--poll", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.poll:
        poll(args.poll)
    elif args.suggesting:
        compare_algorithms()
    elif args.search:
        search_all(args.search, args.trials, args.epochs)
    elif args.watched:
        with tempfile.TemporaryDirectory() as folder:
            wrong = watched(Path(folder))
        print(f"{len(wrong)} things went wrong", *wrong[:5], sep="\n  ")
        sys.exit(bool(wrong))
    else:
        compare(args.rounds)


if __name__ == "__main__":
    main()
