"""One search under 30 faults at random moments, compared with the same search that nothing disturbs.

    python benchmarks/soak.py [--faults 30] [--seed N]

The driver is killed; terminated with its whole process group; stopped and continued; its disk is filled and freed; its
MLflow server is killed and restarted. What ends is started again with the same command. The disk is a tmpfs of 200 MB
in a mount namespace of this process, so that a full one is a real one. Workers note every epoch they train and every
state they save. At the end: every result is the same to the bit, MLflow has one finished run per trial, and no more
epochs were trained than planned and those after each last saved state. Prints the seed first; exits with 1 if a promise
was broken.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import yaml

SPACE: dict[str, Any] = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 6, "E_t": 20, "probe_epochs": 10},
    "axes": {"eta": [0.005, 0.01, 0.02, 0.03], "kappa": [0.1, 0.15, 0.2, 0.3], "buffer_size": [20, 40, 60, 80]},
}
TRIALS, PLANNED = 64, 4 * 6 + 64 * 4 * 20  # four first stages, shared by those that differ in κ and buffer alone
KINDS = ["kill", "terminate the group", "stop and continue", "fill the disk", "restart MLflow"]
DISK = "200m"
PATIENCE = 1800.0  # seconds, for a whole search on a machine with much else to do
FULL = re.compile("No space left on device|disk is full")  # in the system's words and in SQLite's
OF_USER = 2  # exit code of an error that says in one line what to do
TRACE = "CO2L_SOAK_TRACE"  # the file in which workers note epochs and states
PROMISED_SECONDS = 15.0  # from SIGTERM to the end of the driver


def drive() -> int:
    """In the driver: `python -m co2l.tune`, with workers that note what they do."""
    import functools

    import co2l.search.service as service
    from co2l.learning.config import RunConfig
    from co2l.learning.events import EpochDone, Event, StateSaved
    from co2l.search.running.trainable import Assignment, TrialTrainable
    from co2l.tune import main as tune

    class Noting(TrialTrainable):
        def learn(self, assignment: Assignment, config: RunConfig) -> Generator[Event, None, None]:
            file = os.open(os.environ[TRACE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            stages, attempt, task = config.stage_keys(5), uuid.uuid4().hex, 0
            events = super().learn(assignment, config)

            def note(what: str, epoch: int) -> None:
                os.write(file, json.dumps([attempt, stages[task], what, epoch]).encode() + b"\n")

            epoch = 0
            try:
                for event in events:
                    if isinstance(event, EpochDone | StateSaved):
                        task, epoch = event.task, event.epoch
                        note("trained" if isinstance(event, EpochDone) else "saved", epoch)
                    yield event
            except GeneratorExit:
                events.close()
                note("saved", epoch)  # it has saved what it had
                raise
            finally:
                os.close(file)

    service.search = functools.partial(service.search, trainable=Noting)  # type: ignore[assignment]
    return tune()


class Server:
    """`mlflow server` on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.uri = f"http://127.0.0.1:{found.getsockname()[1]}"

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"]
        command += ["--port", self.uri.rpartition(":")[2], "--artifacts-destination", str(self.folder / "artifacts")]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        quick = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **quick}
            )

    def answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            print(f"MLflow's server ended with {self.process.returncode} and is started again", flush=True)
            self.start()
        with contextlib.suppress(OSError):
            return bool(urllib.request.urlopen(f"{self.uri}/health", timeout=2).status == 200)
        return False

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Soak:
    """One search in `folder`, driven to its end whatever happens to it."""

    def __init__(self, folder: Path, server: Server, rng: random.Random) -> None:
        self.folder, self.server, self.rng = folder, server, rng
        self.disk, self.trace, self.errors = folder / "disk", folder / "trace.jsonl", folder / "errors"
        self.disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "soak", self.disk], check=True)
        (folder / "soak.yaml").write_text(yaml.safe_dump(SPACE))
        self.trace.touch()
        self.broken: list[str] = []  # promises
        self.longest = 0.0  # from SIGTERM to the end, in seconds
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.filled = False  # whether the disk was full since the driver started: it may meet that later

    def start(self) -> subprocess.Popen[bytes]:
        _wait(self.server.answers)
        self.starts += 1
        self.filled = False
        words = ["--space", self.folder / "soak.yaml", "--root", self.disk / "runs", "--tracking-uri", self.server.uri]
        with (self.folder / "out").open("wb") as out, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--drive", *words, "--save-every", "0.5", "--json"],
                stdout=out,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, TRACE: str(self.trace), "OMP_NUM_THREADS": "1"},
            )
        return self.process

    def end(self) -> None:
        """Kill the driver that is left if the script gives up."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def run(self, faults: list[str]) -> dict[str, Any]:
        """Returns what the last command printed."""
        process, before = self.start(), ""
        for fault in faults:
            while not self._trains(process):  # a full disk may be met after it was freed
                self._check(before, code := process.wait())
                print(f"{before}: ended later with {code}", flush=True)
                if code != OF_USER:
                    sys.exit(f"the search ended before all faults: {self.errors.read_text()[-500:]}")
                process = self.start()
            time.sleep(self.rng.uniform(0.0, 2.0))
            began, before = time.monotonic(), fault
            code = self._happens(fault, process)
            ended = "goes on" if code is None else f"ended with {code}"
            print(f"{fault}: {ended} after {time.monotonic() - began:.1f} s", flush=True)
            if code is not None:
                self._check(fault, code)
                process = self.start()
        if (code := process.wait(PATIENCE)) == OF_USER:
            self._check(before, code)
            code = self.start().wait(PATIENCE)
        self._expect(code == 0, f"the last driver failed: {self.errors.read_text()[-500:]}")
        self._expect(self.start().wait(PATIENCE) == 0, "with nothing left to do it fails")  # and reconciles
        return dict(json.loads((self.folder / "out").read_text()))

    def _trains(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until an epoch is trained from now on; false if the search has ended instead."""
        before = self.trace.stat().st_size
        _wait(lambda: process.poll() is not None or self.trace.stat().st_size > before)
        return process.poll() is None

    def _happens(self, fault: str, process: subprocess.Popen[bytes]) -> int | None:
        """The exit code if that was the end of the driver."""
        if fault == "kill":
            process.kill()
            return process.wait()
        if fault == "terminate the group":
            began = time.monotonic()
            os.killpg(process.pid, signal.SIGTERM)
            code = process.wait(PATIENCE)
            self.longest = max(self.longest, time.monotonic() - began)
            return code
        if fault == "stop and continue":
            process.send_signal(signal.SIGSTOP)
            time.sleep(self.rng.uniform(2.0, 8.0))
            process.send_signal(signal.SIGCONT)
        elif fault == "fill the disk":
            self.filled = True
            with contextlib.suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(1 << 16))
            time.sleep(self.rng.uniform(2.0, 6.0))
            (self.disk / "filler").unlink()
            time.sleep(1.0)  # it may be about to end
        else:
            self.server.kill()
            time.sleep(self.rng.uniform(0.0, 4.0))
            self.server.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(60) if self._is_ending() else process.poll()
        return None

    def _is_ending(self) -> bool:
        return any(line.startswith("co2l:") for line in self.errors.read_text().splitlines())

    def _check(self, fault: str, code: int) -> None:
        errors = self.errors.read_text()
        self._expect("Traceback" not in errors, f"{fault}: a traceback: {errors[-1500:]}")
        if code == OF_USER:
            self._expect(self.filled and self._names_the_disk(errors), f"{fault}: no full disk: {errors[-500:]}")
        else:
            wanted = {"kill": -signal.SIGKILL, "terminate the group": 130}.get(fault)
            self._expect(code == wanted, f"{fault}: exit code {code}: {errors[-500:]}")

    def _names_the_disk(self, errors: str) -> bool:
        """Whether the driver's last words, and its only error, are that this disk is full."""
        lines = errors.splitlines()
        said = [line for line in lines if line.startswith("co2l:")]
        return said == lines[-1:] and FULL.search(said[0]) is not None and str(self.disk) in said[0]

    def _expect(self, promise: bool, broken: str) -> None:
        if not promise:
            print(f"BROKEN {broken}", flush=True)
            self.broken.append(broken)

    def results(self) -> dict[str, Any]:
        from co2l.search.record.reader import StudyReader

        entries = StudyReader(f"sqlite:///{self.disk}/runs/study.db").study("soak").entries
        return {key: (entry.status, entry.result) for key, entry in entries.items()}

    def check_tracking(self) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(self.server.uri)
        runs = client.search_runs([e.experiment_id for e in client.search_experiments()], max_results=5000)
        studies = [run for run in runs if run.data.tags.get("co2l.kind") == "study"]
        trials = {run.data.tags["co2l.trial"]: run for run in runs if run.data.tags.get("co2l.kind") == "trial"}
        self._expect([run.info.status for run in studies] == ["FINISHED"], "the study's run")
        self._expect(len(runs) == len(studies) + len(trials) == 1 + TRIALS, f"{len(runs)} runs in MLflow")
        scores = {key: round(result["score"], 2) for key, (_, result) in self.results().items()}
        found = {key: run.data.metrics.get("val/score") for key, run in trials.items()}
        wrong = {key: (found.get(key), score) for key, score in scores.items() if found.get(key) != score}
        self._expect(not wrong, f"{len(wrong)} scores in MLflow, such as {list(wrong.items())[:2]}")
        self._expect({run.info.status for run in trials.values()} == {"FINISHED"}, "runs that are not finished")

    def epochs(self) -> tuple[int, int]:
        """How many were trained, and how many of them after the last saved state of an attempt that was lost."""
        last: dict[tuple[str, str], tuple[int, int]] = {}  # attempt and stage -> trained epoch, saved epoch
        trained: collections.Counter[str] = collections.Counter()
        for line in self.trace.read_text().splitlines():
            attempt, stage, what, epoch = json.loads(line)
            at, saved = last.get((attempt, stage), (0, 0))
            last[attempt, stage] = (epoch, saved) if what == "trained" else (at, epoch)
            trained[stage] += what == "trained"
        return trained.total(), sum(max(0, at - saved) for at, saved in last.values())


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit("it did not happen in time")
        time.sleep(0.05)


def soak(faults: int, seed: int, folder: Path) -> list[str]:
    rng = random.Random(seed)
    server = Server(folder)
    server.start()
    with contextlib.ExitStack() as ends:
        ends.callback(server.kill)
        calm = Soak(folder / "calm", server, rng)
        ends.callback(calm.end)
        calm.run([])
        expected = calm.results()
        server.kill()
        (folder / "server.db").unlink()  # the same study again
        server.start()
        hurt = Soak(folder / "hurt", server, rng)
        ends.callback(hurt.end)
        kinds = [KINDS[i % len(KINDS)] for i in range(faults)]
        rng.shuffle(kinds)
        began = time.monotonic()
        printed = hurt.run(kinds)
        hurt._expect(hurt.results() == expected, "the results differ")
        hurt._expect(len(expected) == TRIALS, f"{len(expected)} trials")
        hurt.check_tracking()
        (calmly, _), (trained, lost) = calm.epochs(), hurt.epochs()
        hurt._expect(calmly == PLANNED, f"undisturbed, {calmly} epochs were trained and {PLANNED} planned")
        hurt._expect(trained <= PLANNED + lost, f"{trained} epochs trained, {PLANNED} planned, {lost} after states")
        hurt._expect(hurt.longest <= PROMISED_SECONDS, f"{hurt.longest:.1f} s from SIGTERM to the end")
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(collections.Counter(kinds).items()))
        print(f"{faults} faults ({counts}), {hurt.starts} drivers, {time.monotonic() - began:.0f} s")
        print(f"{TRIALS} trials, scores and weights equal to the bit: {hurt.results() == expected}")
        print(f"epochs: {PLANNED} planned, {trained} trained, {lost} of them after a last saved state")
        print(f"the record counts {printed['epochs_trained']} of them")
        print(f"longest time from SIGTERM to the end: {hurt.longest:.1f} s (promised: {PROMISED_SECONDS:.0f} s)")
        return calm.broken + hurt.broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: at random)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    seed = random.randrange(10**6) if args.seed is None else args.seed
    if not args.inside:
        print(f"seed {seed}", flush=True)
        rights = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
        again = [sys.executable, __file__, "--inside", "--faults", str(args.faults), "--seed", str(seed)]
        os.execvp("unshare", ["unshare", *rights, "--mount", *again])
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
        try:
            broken = soak(args.faults, seed, Path(folder))
        finally:
            for disk in Path(folder).glob("*/disk"):
                subprocess.run(["umount", "--lazy", disk], check=False)
    print(f"{len(broken)} promises broken")
    sys.exit(bool(broken))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        from co2l.cli.console import execute

        del sys.argv[1]
        execute(drive)  # which is there for signals before anything large is imported, as in the command itself
    else:
        main()
