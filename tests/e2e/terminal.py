"""A terminal of a given size, in which commands are typed and whose screen is recorded: tmux without a window."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from commands import environment

SAMPLE_SECONDS = 0.2
PATIENCE = 180.0  # seconds, on a busy machine
PROMPT = "ready>"


@dataclass
class Terminal:
    folder: Path
    sockets: str
    recorded: list[tuple[float, list[str]]] = field(default_factory=list)  # seconds, and the lines that are not empty

    def tmux(self, *words: str) -> str:
        changes = environment(TMUX_TMPDIR=self.sockets, TERM="xterm-256color", LC_ALL="C.UTF-8")
        changes.pop("TMUX", None)
        done = subprocess.run(["tmux", "-f", os.devnull, *words], env=changes, cwd=self.folder, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def clear(self) -> None:
        self.type("clear")
        self.watch(lambda lines: lines == [PROMPT])

    def press(self, key: str) -> None:
        self.tmux("send-keys", key)

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> list[str]:
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").splitlines() if line.strip()]

    def watch(self, until: Callable[[list[str]], bool]) -> list[list[str]]:
        """The screens until one is as wanted, that one included."""
        began, first = time.monotonic(), len(self.recorded)
        while True:
            self.recorded.append((time.monotonic(), self.screen()))
            if until(self.recorded[-1][1]):
                return [lines for _, lines in self.recorded[first:]]
            assert time.monotonic() - began < PATIENCE, "\n".join(self.recorded[-1][1])
            time.sleep(SAMPLE_SECONDS)


@contextmanager
def terminal(folder: Path, width: int, height: int) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("a terminal is recorded with tmux, which is not installed")
    with tempfile.TemporaryDirectory(prefix="tmux-") as sockets:  # the path of a socket is limited to 107 characters
        opened = Terminal(folder, sockets)
        opened.tmux("new-session", "-d", "-x", str(width), "-y", str(height), "bash --norc --noprofile")
        try:
            opened.watch(bool)
            opened.type(f"PS1='{PROMPT}'; alias python={sys.executable}")  # so that a command fits on a line
            opened.clear()
            yield opened
        finally:
            opened.tmux("kill-server")
