"""A method's settings are below a command's help, ours and those of plug-ins alike, as `co2l settings` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from commands import call_here, refusal_of
from own_plugins import forget, write_file, write_package

from co2l import train, tune


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    forget()


def printed(module: str, *words: str, cwd: Path) -> str:
    done = call_here(module, *words, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def setting(text: str, name: str) -> list[str]:
    """Its row: name, default, range, who reads it, meaning."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return row.split(maxsplit=2)


def test_help_without_a_method_or_a_space_is_the_help_alone(tmp_path: Path) -> None:
    for module in (train, tune):
        assert printed(module.__name__, "--help", cwd=tmp_path) == module.parser().format_help()
        assert "settings" in next(line for line in module.parser().format_help().splitlines() if "--help" in line)
    assert printed("co2l.train", "--benchmark", "r_digits", "-h", cwd=tmp_path) == train.parser().format_help()


def test_the_settings_of_a_method_are_below_the_help_wherever_that_is_asked_for(tmp_path: Path) -> None:
    expected = printed("co2l.commands.settings", "er", "seq_digits", cwd=tmp_path)
    shown = printed("co2l.train", "--method", "er", "--help", cwd=tmp_path)
    assert shown.startswith(train.parser().format_help())
    assert shown.endswith(f"settings of er on seq_digits, with their defaults there:\n{expected}")
    assert printed("co2l.train", "-h", "--method", "er", cwd=tmp_path) == shown
    other = printed("co2l.train", "--help", "--method", "co2l", "--benchmark", "r_mnist", cwd=tmp_path)
    assert setting(shown, "epochs")[1] == "10"
    assert setting(other, "E_0")[1] == "100"  # as the paper has it


def test_those_of_a_file_and_of_a_package_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ["weight", "1", "≥ 0                       every task   weight of replayed examples"]
    write_file(tmp_path)
    given = ["--import", "own.py"]
    shown = printed("co2l.train", "--method", "weighted", "--benchmark", "stripes", *given, "--help", cwd=tmp_path)
    assert "settings of weighted on stripes" in shown
    assert setting(shown, "weight") == expected
    assert setting(printed("co2l.commands.settings", "weighted", *given, cwd=tmp_path), "weight")[:2] == ["weight", "1"]
    forget()
    refused = call_here("co2l.train", "--method", "weighted", "--help", cwd=tmp_path)
    assert "unknown method 'weighted'" in refusal_of(refused)
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site")))
    forget()
    assert setting(printed("co2l.train", "--method", "weighted", "--help", cwd=tmp_path), "weight") == expected


def test_those_of_all_methods_of_a_space(tmp_path: Path) -> None:
    write_file(tmp_path)
    space = {"imports": ["own.py"], "benchmark": "stripes", "axes": {"method": ["weighted", "derpp"]}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(space))
    shown = printed("co2l.tune", "--space", "own.yaml", "--help", cwd=tmp_path)
    assert shown.startswith(tune.parser().format_help())
    first, second = shown.split("\nsettings of ")[1:]
    assert first.startswith("weighted on stripes")
    assert setting(first, "weight")[0] == "weight"
    assert second.startswith("derpp on stripes")
    assert setting(second, "alpha")[0] == "alpha"


def test_what_is_wrong_is_said_instead(tmp_path: Path) -> None:
    line = refusal_of(call_here("co2l.train", "--method", "err", "--help", cwd=tmp_path))
    assert line == "co2l: unknown method 'err'; did you mean 'er'?"
    line = refusal_of(call_here("co2l.tune", "--space", "none.yaml", "--help", cwd=tmp_path))
    assert "none.yaml: cannot be read" in line
