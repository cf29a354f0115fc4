"""Which code made a study: our version and commit, and the versions of what it runs on."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import co2l

PACKAGES = ("torch", "ray", "optuna", "mlflow")
GIT_SECONDS = 5


def provenance() -> dict[str, str]:
    """As tags of a run; the UI shows MLflow's own tag for the commit as the source's version."""
    found = {"co2l.version": co2l.__version__, "co2l.python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[f"co2l.{name}"] = version(name)
    if commit := _commit(Path(co2l.__file__).parents[1]):
        found["co2l.commit"] = commit
        found["mlflow.source.git.commit"] = commit.partition("-")[0]
    return found


def _commit(folder: Path) -> str:
    """Of a checkout, with `-dirty` if files differ from it; empty for an installed package, or without git."""
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    return ""
