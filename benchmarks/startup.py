"""What a search costs beside training: until its first word and first trial, in all, and for each further trial.

    python benchmarks/startup.py [--rounds 3]

The first three are the command as a user types it in a terminal, for one trial of about a second, in an empty folder,
after a first time that is not counted: it compiles what was installed without bytecode. The last is the slope from 40
to 200 trials that only report 5 times: of the service with everything (study, stage reuse, tracking in SQLite,
selection, figures), and of bare Ray Tune that reuses its actors and tracks nothing. The rounds alternate, each
measurement starts Ray in a separate process, and medians are printed.
"""

from __future__ import annotations

import argparse
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FEW, MANY, REPORTS = 40, 200, 5
SPACE = "benchmark: seq_digits\nsettings: {E_0: 5, E_t: 4, probe_epochs: 5}\naxes: {kappa: [0.1]}\n"


def bare(folder: Path, trials: int) -> None:
    from ray import tune

    class OnlyReports(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            del config
            self.reports = 0

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.setup(new_config)
            return True

        def step(self) -> dict[str, Any]:
            self.reports += 1
            return {"score": float(self.reports), "done": self.reports == REPORTS}

    results = tune.run(
        OnlyReports,
        config={"trial": tune.grid_search(list(range(trials)))},
        storage_path=str(folder),
        reuse_actors=True,
        verbose=0,
    )
    assert len(results.trials) == trials


def service(folder: Path, trials: int) -> None:
    from collections.abc import Generator

    from co2l.cli.display import Display
    from co2l.cli.search_progress import SearchProgress
    from co2l.learning.config import RunConfig
    from co2l.learning.events import Event, Result, RunDone, TaskDone
    from co2l.search.running.trainable import Assignment, TrialTrainable
    from co2l.search.service import Options, search
    from co2l.search.space.space import parse

    class OnlyReports(TrialTrainable):
        def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
            del config
            rows = [{"class_il": [90.0] * (t + 1), "task_il": [95.0] * (t + 1)} for t in range(REPORTS)]
            for t, row in enumerate(rows):
                yield TaskDone(t, row, self.reporter.epochs[t])
            matrix = {name: [row[name] for row in rows] for name in rows[-1]}
            yield RunDone(Result(rows[-1], matrix, assignment.trial, "fast"))

    eta = [0.001 * (i + 1) for i in range(5)]
    kappa = [0.1 * (i + 1) for i in range(trials // len(eta))]
    space = parse({"benchmark": "seq_digits", "axes": {"eta": eta, "kappa": kappa}}, "startup")
    options = Options(
        root=folder,
        study="startup",
        data=folder,
        store=f"{folder}/store",
        storage=f"sqlite:///{folder}/study.db",
        tracking_uri=f"sqlite:///{folder}/mlflow.db",
    )
    result = search(space, options, SearchProgress(Display(quiet=True), space), lambda: False, OnlyReports)
    assert (result.summary.left, result.summary.failed, result.summary.untracked) == (0, {}, 0)
    assert len(result.choice.selected) == 1


def in_process(kind: str, trials: int) -> float:
    """The seconds that a separate process takes, including start and exit."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, __file__, "--only", kind, "--trials", str(trials), "--folder", folder]
        done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout)
        return time.perf_counter() - started


def one_trial() -> dict[str, float]:
    """The command for one trial in a terminal: when its first character, its first running trial and its end came."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "one.yaml").write_text(SPACE)
        command = [sys.executable, "-m", "co2l.tune", "--space", "one.yaml"]
        ours, screen = pty.openpty()
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=_environment(), stdin=screen, stdout=screen, stderr=screen)
        os.close(screen)
        seen: dict[str, float] = {}
        shown = b""
        while more := _read(ours):
            now = time.perf_counter() - started
            shown += more
            seen.setdefault("first word", now)
            if b"1 running" in shown:
                seen.setdefault("first trial", now)
        os.close(ours)
        if process.wait():
            sys.exit(f"the search failed: {shown.decode(errors='replace')}")
        return seen | {"end of one trial": time.perf_counter() - started}


def _read(terminal: int) -> bytes:
    """What was written since; nothing once the last program has left it."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say so
        return b""


def _environment() -> dict[str, str]:
    """Ours, but bytecode is kept as it is by default: without it every start compiles half a million lines."""
    package = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1", "PYTHONPATH": path, "TERM": "xterm"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["bare", "service"], help=argparse.SUPPRESS)
    parser.add_argument("--trials", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        run: dict[str, Callable[[Path, int], None]] = {"bare": bare, "service": service}
        run[args.only](args.folder, args.trials)
        return
    slopes: dict[str, list[float]] = {"service": [], "bare": []}
    moments: list[dict[str, float]] = []
    one_trial()
    for _ in range(args.rounds):
        moments.append(one_trial())
        for kind, found in slopes.items():
            found.append((in_process(kind, MANY) - in_process(kind, FEW)) / (MANY - FEW))
    for name in moments[0]:
        print(f"{name:<22} {statistics.median(each[name] for each in moments):6.1f} s")
    for kind, title in (("service", "further trial"), ("bare", "the same, bare Tune")):
        spread = ", ".join(f"{slope:.3f}" for slope in slopes[kind])
        print(f"{title:<22} {statistics.median(slopes[kind]):6.3f} s ({spread})")


if __name__ == "__main__":
    main()
