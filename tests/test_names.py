"""What a study may be called, and what of it never reaches a file or a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_spaces import GOOD
from commands import call_here

from co2l.errors import Co2lError
from co2l.names import LONGEST, check_name


@pytest.mark.parametrize("name", ["seq_digits", "seq_digits.test", "2026-11+b", "größe", "a" * LONGEST])
def test_names(name: str) -> None:
    assert check_name(name, "--study") == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../x", "/x", "a/b", "a b", "-a", ".a", "a\n", "\x1b[31mred", "a" * 300, "ß" * 51, "a:b"]
)
def test_no_names(name: str) -> None:
    with pytest.raises(Co2lError, match="is no name"):
        check_name(name, "--study")


@pytest.mark.parametrize("name", ["../../x", "a" * 300, "\x1b]0;mine\x07", ""])
def test_a_command_refuses_them_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(GOOD)
    (tmp_path / "deep").mkdir()
    for command, flag in (("tune", "study"), ("evaluate", "study"), ("evaluate", "name")):
        rest = ["--config", "../space.yaml"] if flag == "name" else []
        rest = ["--space", "../space.yaml"] if command == "tune" else rest
        done = call_here(f"co2l.{command}", f"--{flag}", name, *rest, cwd=tmp_path / "deep")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"co2l: --{flag}: '")
        assert done.stderr[:-1].isprintable()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "space.yaml"]


def test_a_space_whose_file_has_no_name_for_a_study_asks_for_one(tmp_path: Path) -> None:
    (tmp_path / "my space.yaml").write_text(GOOD)
    done = call_here("co2l.tune", "--space", "my space.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "the name of my space.yaml: 'my space' is no name; use letters" in done.stderr
    assert not (tmp_path / "runs").exists()
