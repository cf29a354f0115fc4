"""Slurm's commands as scripts that give a written answer and note how they were called."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest


class FakeSlurm:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        monkeypatch.setenv("PATH", f"{self.folder}{os.pathsep}{os.environ['PATH']}")

    def answer(self, command: str, out: str = "", err: str = "", code: int = 0) -> None:
        path = self.folder / command
        lines = [f'echo "$@" >> {self.folder}/{command}.calls', f"printf %s {shlex.quote(out)}"]
        lines += [f"printf %s {shlex.quote(err)} >&2", f"exit {code}"]
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)

    def calls(self, command: str) -> list[str]:
        path = self.folder / f"{command}.calls"
        return path.read_text().splitlines() if path.exists() else []
