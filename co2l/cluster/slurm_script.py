"""The `#SBATCH` lines of a Slurm script, read and changed; and the script with its workers, submitted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from co2l.cluster.slurm_task import task_of
from co2l.errors import Co2lError, headline
from co2l.files import read_text, write_atomic
from co2l.shipped import folder

UNSET = "CHANGE-ME"
SHIPPED = folder("cluster") / "slurm.sh"
LINE = re.compile(r"^#SBATCH +--([\w-]+)(?:[= ](\S*))?[^\n]*\n", re.MULTILINE)


def options(text: str) -> dict[str, str]:
    """What the script asks Slurm for, by the names of sbatch's long flags."""
    return {name: value or "" for name, value in LINE.findall(text)}


def with_options(text: str, changes: Mapping[str, object]) -> str:
    """The script with other values. One that is None, or was never set, is left to Slurm."""
    new = {name: None if value in (None, "0") else str(value) for name, value in changes.items()}

    def line(found: re.Match[str]) -> str:
        name, value = found.group(1), new.pop(found.group(1), found.group(2) or "")
        return f"#SBATCH --{name}{f'={value}' if value else ''}\n" if value is not None and value != UNSET else ""

    changed = LINE.sub(line, text)
    added = "".join(f"#SBATCH --{name}={value}\n" for name, value in new.items() if value is not None)
    first, _, rest = changed.partition("\n")
    return f"{first}\n{added}{rest}"


def read_script(file: Path) -> str:
    try:
        return read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        fix = "give the repository's cluster/slurm.sh, or a copy"
        what = getattr(error, "strerror", None) or "it is not text"
        raise Co2lError(f"cannot be read ({what})", where=str(file), fix=fix) from None


def seconds(text: str) -> float:
    """A time limit as Slurm writes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours:minutes:seconds."""
    if text.lower() in ("infinite", "unlimited"):
        return float("inf")
    if not (found := re.fullmatch(r"(?:([0-9]{1,9})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?", text)):
        raise Co2lError(f"'{text}' is not a time limit", where="--time", fix="write for example 04:00:00")
    days, *given = (int(part) if part else None for part in found.groups())
    if days is None and given[2] is None:
        given = [0, *given[:2]]  # without hours
    return sum(unit * (amount or 0) for unit, amount in zip((86400, 3600, 60, 1), (days, *given), strict=True))


@dataclass(frozen=True)
class Submitted:
    name: str
    search: str  # number of its job
    workers: str  # number of the array, if there is one
    log: str


def submit(file: Path, changes: Mapping[str, object], arguments: Sequence[str], workers: int) -> Submitted:
    """Write the script with these values below the search's root, and submit it and its workers, if any."""
    task = task_of(arguments)
    _check_arguments(task.command, task.arguments)
    text = read_script(file)
    alone = changes.get("nodes") == "0"
    script = task.root / "slurm.sh"
    changed = with_options(text, {**changes, "nodes": "1"} if alone else changes)
    write_atomic(script, changed, mode=0o600)
    name = f"co2l-{task.root.name}"
    if alone:  # for the workers' sake the script keeps its GPUs
        driver = script.with_name("slurm-driver.sh")
        write_atomic(driver, with_options(changed, {"gpus-per-node": None, "cpus-per-task": "2"}), mode=0o600)
        search = _sbatch([f"--job-name={name}", str(driver), *arguments, "--driver-only"])
    else:
        search = _sbatch([f"--job-name={name}", str(script), *arguments])
    array = ""
    if workers:
        words = ["--nodes=1", f"--array=1-{workers}", f"--dependency=after:{search}", f"--job-name={name}-worker"]
        array = _sbatch([*words, str(script), "--join", *arguments], CO2L_SEARCH_JOB=search)
    return Submitted(task.root.name, search, array, f"{name}-{search}.log")


def _check_arguments(command: str, arguments: Sequence[str]) -> None:
    """Before it waits in a queue: the command's own answer to a wrong flag or space."""
    words = [sys.executable, "-m", f"co2l.{command}", "--plan", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise Co2lError((said or ["it does not start"])[-1].removeprefix("co2l: "))


def _sbatch(words: Sequence[str], **variables: str) -> str:
    """The number of the new job."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", *words],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise Co2lError("there is no sbatch here", fix="submit from a login node of the cluster") from None
    if done.returncode != 0:
        raise Co2lError(f"Slurm refuses the job ({headline(done.stderr)})", fix="see: python -m co2l.cluster check")
    return done.stdout.strip().partition(";")[0]
