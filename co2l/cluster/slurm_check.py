"""What is wrong with a Slurm script, found before its job waits in the queue, and what will happen to its databases."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from co2l.cluster.check import Finding
from co2l.cluster.meeting import versions
from co2l.cluster.slurm_script import UNSET, options, read_script, seconds
from co2l.cluster.slurm_task import task_of
from co2l.errors import headline

START_SECONDS = 120.0  # until a job's first trial trains: imports from a shared disk, Ray, data
SAVE_SECONDS = 60.0  # between the states within a stage
FREE_SECONDS = 30  # to wait for nodes to look at the store from
NETWORKED = re.compile(r"nfs|lustre|gpfs|beegfs|ceph|fuse|panfs|wekafs|9p|smb|cifs|afs|orangefs")


@dataclass(frozen=True)
class Trial:
    """What one trial needs, and the most epochs of any stage, if the space is known."""

    cpus: float = 1.0
    gpus: float = 0.0
    longest: int | None = None


@dataclass(frozen=True)
class Partition:
    """The largest of its nodes."""

    name: str
    limit: float
    gpus: int
    cpus: int
    nodes: int


def read(path: Path) -> dict[str, str]:
    return options(read_script(path))


def findings(path: Path, space: str | None, trial: Trial, *, offline: bool) -> Iterator[Finding]:
    asked = read(path)
    unset = [name for name, value in asked.items() if value == UNSET]
    if unset:
        yield Finding("values", "wrong", f"not set: {', '.join(unset)}; replace {UNSET} with your own values")
    else:
        yield Finding("values", "ok", "all are set")
    yield continues(asked)
    yield time_limit(asked, trial)
    yield fits(asked, trial)
    task = task_of(["--space", space or "search"])
    yield from databases(task.root)
    if offline:
        return
    partitions = _partitions()
    if partitions is None:
        yield Finding("slurm", "unknown", "there is no Slurm here; check again on a login node")
        return
    found = list(partition(asked, partitions))
    yield from found
    if unset or any(each.state == "wrong" for each in found):
        yield Finding("store", "unknown", "not checked until the rest is right")
        return
    yield accepted(path, space)
    yield from nodes(asked, task.store, max(each.nodes for each in partitions))


def continues(asked: dict[str, str]) -> Finding:
    """At the time limit, the job must hear of it early enough, and may go back into the queue."""
    if not re.fullmatch(r"B:(SIG)?TERM@\d+", asked.get("signal", "")):
        return Finding("signal", "wrong", "no --signal=B:TERM@120: the job would be killed before it saves anything")
    if "requeue" not in asked or asked.get("open-mode") != "append":
        return Finding("signal", "wrong", "no --requeue or no --open-mode=append: the job could not continue")
    return Finding("signal", "ok", f"{_warning(asked):.0f} s before the limit it saves its states and requeues itself")


def time_limit(asked: dict[str, str], trial: Trial) -> Finding:
    """A stage may take longer than the job, but the job must last until a state has been saved."""
    if not (given := asked.get("time")):
        return Finding("time", "unknown", "no --time: the partition's default")
    limit, lost = seconds(given), START_SECONDS + _warning(asked)
    if limit < lost + SAVE_SECONDS:
        need = f"{(lost + SAVE_SECONDS) / 60:.0f} minutes"
        text = f"{given} is shorter than a stage can save: starting takes minutes, and the signal comes early"
        return Finding("time", "wrong", f"{text}; give at least {need}")
    trains = f"each start trains for about {(limit - lost) / 60:,.0f} minutes"
    if trial.longest is None:
        return Finding("time", "ok", trains)
    return Finding("time", "ok", f"{trains}; the longest stage ({trial.longest} epochs) may take several starts")


def fits(asked: dict[str, str], trial: Trial) -> Finding:
    cpus, gpus = _number(asked.get("cpus-per-task"), 1), _number(asked.get("gpus-per-node"), 0)
    wants = f"a trial of {trial.cpus:g} CPUs and {trial.gpus:g} GPUs"
    if trial.cpus > cpus or trial.gpus > gpus:
        return Finding("resources", "wrong", f"{wants} does not fit a node's share of {cpus} CPUs and {gpus} GPUs")
    amounts = [(cpus, trial.cpus), (gpus, trial.gpus)]
    each = int(min(have / want for have, want in amounts if want))
    return Finding("resources", "ok", f"{wants}: {each} at once on each of {asked.get('nodes', '1')} nodes")


def databases(root: Path) -> Iterator[Finding]:
    """Where record and tracking are; SQLite's locks do not hold on most network file systems."""
    kind = _file_system(root)
    where = f"{root} is on {kind}" + (", where SQLite is not safe" if NETWORKED.search(kind) else "")
    for what, variable in (("record", "CO2L_STORAGE"), ("tracking", "CO2L_TRACKING_URI")):
        if given := os.environ.get(variable):
            if given.startswith("sqlite"):
                text = f"{variable} is an SQLite file; unset it (it is then kept on the driver's disk) or name a server"
                yield Finding(what, "wrong", text)
            else:
                yield Finding(what, "ok", f"in the server that {variable} names; only the driver talks to it")
        else:
            yield Finding(what, "ok", f"on the disk of the driver's node, copied to the root every 30 s ({where})")


def partition(asked: dict[str, str], partitions: Sequence[Partition]) -> Iterator[Finding]:
    """The partition is there, and its nodes have what the script asks for."""
    name = asked.get("partition")
    there = [each for each in partitions if name in (None, each.name)]
    if not there:
        names = ", ".join(dict.fromkeys(each.name for each in partitions))
        yield Finding("partition", "wrong", f"there is no partition '{name}'; there are: {names}")
        return
    gpus, cpus = max(each.gpus for each in there), max(each.cpus for each in there)
    shown = name or "the default partition"
    if (wanted := _number(asked.get("gpus-per-node"), 0)) > gpus:
        yield Finding("partition", "wrong", f"{wanted} GPUs per node, and the nodes of {shown} have {gpus} at most")
    elif (wanted := _number(asked.get("cpus-per-task"), 1)) > cpus:
        yield Finding("partition", "wrong", f"{wanted} CPUs per node, and the nodes of {shown} have {cpus} at most")
    elif (wanted := _number(asked.get("nodes"), 1)) > (count := sum(each.nodes for each in there)):
        yield Finding("partition", "wrong", f"{wanted} nodes, and {shown} has {count}")
    elif "time" in asked and seconds(asked["time"]) > (limit := max(each.limit for each in there)):
        yield Finding("partition", "wrong", f"{asked['time']}, and the limit of {shown} is {limit / 3600:g} h")
    else:
        yield Finding("partition", "ok", f"{shown} has nodes of {cpus} CPUs and {gpus} GPUs")


def accepted(path: Path, space: str | None) -> Finding:
    done = _run(["sbatch", "--test-only", str(path), *(["--space", space] if space else [])])
    said = headline((done.stderr or done.stdout).strip().removeprefix("sbatch: ")) if done else ""
    if done is None or done.returncode != 0:
        return Finding("sbatch", "wrong", f"Slurm refuses it ({said.removeprefix('error: ')})")
    return Finding("sbatch", "ok", said)


def nodes(asked: dict[str, str], store: str, available: int) -> Iterator[Finding]:
    """Nodes of the partition have our versions and see the store: two at least, as a job continues on another one."""
    if "://" in store:
        yield Finding("store", "unknown", f"{store}: not on a file system; the search says so if it refuses")
        return
    Path(store).mkdir(parents=True, exist_ok=True)
    count = min(available, max(2, _number(asked.get("nodes"), 1)))
    word = secrets.token_hex(8)
    seen = Path(store) / f".co2l-check-{word}"
    seen.touch()
    try:
        where = [f"--partition={asked['partition']}"] if "partition" in asked else []
        words = ["srun", *where, f"--nodes={count}", "--ntasks-per-node=1", "--time=5", f"--immediate={FREE_SECONDS}"]
        done = _run([*words, "--quiet", sys.executable, "-m", "co2l.cluster", "slurm-look", str(seen)])
    finally:
        seen.unlink(missing_ok=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")] if done else []
    if len(answers) < count:
        why = headline(done.stderr.strip() or "no answer") if done else "no srun"
        yield Finding("nodes", "unknown", f"{count} nodes could not be looked at ({why}); try again when some are free")
    for each in sorted(answers, key=lambda answer: str(answer["node"])):
        if each["versions"] != versions():
            text = f"{each['node']} has {each['versions']}, this machine has {versions()}; they must match"
            yield Finding("nodes", "wrong", text)
        elif not each["sees"]:
            yield Finding("store", "wrong", f"{each['node']} does not see {store}; use a folder that all nodes share")
        elif not each["writes"]:
            yield Finding("store", "wrong", f"{each['node']} cannot write to {store}")
        else:
            yield Finding("nodes", "ok", f"{each['node']}: {each['versions']}, writes to {store}")


def look(seen: Path) -> None:
    """On a node: whether it sees a file that the check has just made, and can write beside it."""
    node, writes = os.environ.get("SLURMD_NODENAME", ""), True
    try:
        (own := seen.with_name(f"{seen.name}-{node}")).touch()
        own.unlink()
    except OSError:
        writes = False
    print(json.dumps({"node": node, "versions": versions(), "sees": seen.exists(), "writes": writes}), flush=True)


def _partitions() -> list[Partition] | None:
    done = _run(["sinfo", "--noheader", "--format=%R|%l|%G|%c|%D"])
    if done is None or done.returncode != 0:
        return None
    found = []
    for line in done.stdout.split():
        name, limit, generic, cpus, count = line.split("|")
        gpus = sum(int(each) for each in re.findall(r"\bgpu(?::[\w.-]+)?:(\d+)", generic))
        found.append(Partition(name, seconds(limit), gpus, _number(cpus, 0), _number(count, 0)))
    return found


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """None if there is no such program."""
    try:
        return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        return None


def _warning(asked: dict[str, str]) -> float:
    return float(asked.get("signal", "").partition("@")[2] or 60)  # Slurm's own, if it is not given


def _number(text: str | None, default: int) -> int:
    """Of `2`, `a100:2`, `64+` and `1-4`, the last number."""
    found = re.findall(r"[0-9]{1,9}", (text or "").rpartition(":")[2])
    return int(found[-1]) if found else default


def _file_system(path: Path) -> str:
    """The type of the file system on which the path is or will be."""
    try:
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return "an unknown file system"
    holding = [words for words in lines if path.is_relative_to(words[1])]
    return max(holding, key=lambda words: len(words[1]))[2] if holding else "an unknown file system"
