"""Completion: what bash offers for a line that has begun."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from commands import call_here

from co2l.commands import COMMANDS

ASK = '\nCOMP_WORDS=({words})\nCOMP_CWORD=$(({count} - 1))\n_co2l\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'


def script(shell: str, cwd: Path) -> str:
    done = call_here("co2l.__main__", "completion", shell, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def offered(line: list[str], cwd: Path) -> list[str]:
    words = " ".join(f"'{word}'" for word in line)
    text = script("bash", cwd) + ASK.format(words=words, count=len(line))
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_flags_and_spaces(tmp_path: Path) -> None:
    assert set(offered(["co2l", "s"], tmp_path)) == {name for name in COMMANDS if name.startswith("s")}
    assert offered(["co2l", "tune", "--algo"], tmp_path) == ["--algorithm"]
    assert offered(["co2l", "gc", "--del"], tmp_path) == ["--delete"]
    assert offered(["co2l", "cluster", "selft"], tmp_path) == ["selftest"]
    assert offered(["co2l", "tune", "--space", "seq_digits/d"], tmp_path) == ["seq_digits/der", "seq_digits/derpp"]
    assert offered(["co2l", "completion", ""], tmp_path)[:3] == ["bash", "fish", "zsh"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_accepts_its_script(shell: str, tmp_path: Path) -> None:
    text = script(shell, tmp_path)
    assert all(name in text for name in COMMANDS)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, capture_output=True)
