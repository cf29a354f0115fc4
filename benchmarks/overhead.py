"""What the service costs per trial: 40 cells that only report 5 times, beside bare Ray Tune with such trials.

    python benchmarks/overhead.py [--rounds 3]

The service is the whole of it: study, stage reuse and tracking in SQLite files, selection, figures. Bare Tune has its
default settings and no tracking. Both start Ray, each in a process
of its own, so that neither's settings reach the other.
Prints seconds per trial and their ratio (the target is at most 0.5).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRIALS, REPORTS = 40, 5


def bare(folder: Path) -> None:
    from ray import tune

    def only_reports(_: dict[str, int]) -> None:
        for i in range(REPORTS):
            tune.report({"score": float(i)})

    space = {"cell": tune.grid_search(list(range(TRIALS)))}
    results = tune.Tuner(only_reports, param_space=space, run_config=tune.RunConfig(storage_path=str(folder))).fit()
    assert len(results) == TRIALS
    assert not results.errors


def service(folder: Path) -> None:
    from collections.abc import Generator

    from co2l.learning.config import RunConfig
    from co2l.learning.run import Event, Result, RunDone, TaskDone
    from co2l.search.service import Options, search
    from co2l.search.space import parse
    from co2l.search.trainable import Assignment, CellTrainable
    from co2l.search_progress import SearchProgress

    class OnlyReports(CellTrainable):
        def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
            del config
            rows = [{"class_il": [90.0] * (t + 1), "task_il": [95.0] * (t + 1)} for t in range(REPORTS)]
            for t, row in enumerate(rows):
                yield TaskDone(t, row, self.reporter.epochs[t])
            matrix = {name: [row[name] for row in rows] for name in rows[-1]}
            yield RunDone(Result(rows[-1], matrix, assignment.cell))

    eta = [0.001 * (i + 1) for i in range(5)]
    kappa = [0.1 * (i + 1) for i in range(TRIALS // len(eta))]
    space = parse({"benchmark": "seq_digits", "axes": {"eta": eta, "kappa": kappa}}, "overhead")
    options = Options(
        root=folder,
        study="overhead",
        data=folder,
        store=f"{folder}/store",
        storage=f"sqlite:///{folder}/study.db",
        tracking_uri=f"sqlite:///{folder}/mlflow.db",
    )
    outcome = search(space, options, SearchProgress(space, quiet=True), lambda: False, OnlyReports)
    assert (outcome.left, outcome.failed, outcome.untracked) == (0, {}, 0)
    assert len(outcome.choice.selected) == 1


def seconds(kind: str) -> float:
    """Of a process of its own, its start and end included."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, __file__, "--only", kind, "--folder", folder]
        environment = os.environ | {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "300",
        }  # a busy machine
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout)
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="the two alternate; the median counts")
    parser.add_argument("--only", choices=["bare", "service"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        {"bare": bare, "service": service}[args.only](args.folder)
        return
    rounds = [(seconds("bare"), seconds("service")) for _ in range(args.rounds)]
    for name, each in zip(("bare Ray Tune", "service"), zip(*rounds, strict=True), strict=True):
        spread = ", ".join(f"{total:.1f}" for total in each)
        print(f"{name:<14} {statistics.median(each) / TRIALS:.2f} s per trial ({TRIALS} trials in {spread} s)")
    print(f"ratio {statistics.median(ours / theirs for theirs, ours in rounds):.2f} (the target is at most 0.5)")


if __name__ == "__main__":
    main()
