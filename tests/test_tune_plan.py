"""python -m co2l.tune --plan: what it prints, and one line for every wrong input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bad_spaces import BAD, GOOD, SAMPLED

from co2l.console import execute
from co2l.tune import main

ROOT = Path(__file__).resolve().parents[1]
CIFAR = ROOT / "search_spaces" / "seq_cifar10.yaml"


def process(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "co2l.tune", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def here(*arguments: str | Path) -> int:
    """The command in this process; its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tune", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            execute(main)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def test_the_plan_of_the_papers_grid() -> None:
    done = process("--space", CIFAR, "--plan", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert plan.keys() >= {"cells", "first_stages", "stages", "epochs_naive", "epochs_planned", "ratio"}
    assert (plan["cells"], plan["first_stages"]) == (648, 27)
    assert plan["stages"] == 27 + 648 * 4
    assert plan["epochs_naive"] == 324 * (500 + 4 * 50) + 324 * (500 + 4 * 100)
    assert plan["epochs_planned"] == 27 * 500 + 324 * 4 * 50 + 324 * 4 * 100
    assert plan["ratio"] == pytest.approx(518_400 / 207_900)
    assert plan["ratio"] >= 2.49


def test_the_plan_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert here("--space", CIFAR, "--plan") == 0
    out, err = capsys.readouterr()
    assert err == ""
    for part in ("648", "27 distinct", "2,619 distinct", "207,900, without reuse 518,400 (2.49 times)"):
        assert part in out


def test_a_plan_by_chance_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sampled.yaml"
    path.write_text(SAMPLED)
    assert here("--space", path, "--plan") == 0
    out = capsys.readouterr().out
    assert "about" in out
    assert "random draw of 5 samples" in out
    assert here("--space", path, "--plan", "--json") == 0
    assert json.loads(capsys.readouterr().out)["exact"] is False
    path.write_text(GOOD + "early_stop: on\n")
    assert here("--space", path, "--plan") == 0
    assert "at most" in capsys.readouterr().out


def test_settings_are_overridden(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("--space", good, "--plan", "--json", "--set", "E_0=7", "--set", "eta=0.5") == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["cells"], plan["first_stages"]) == (8, 2)
    assert plan["epochs_naive"] == 8 * (7 + 4 * 1)


def test_probe_and_price(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probing = ["--plan", "--probe", "--price", "2", "--parallel", "3"]
    assert here("--space", good, *probing, "--json") == 0
    estimate = json.loads(capsys.readouterr().out)["estimate"]
    assert estimate["trial_hours_naive"] > estimate["trial_hours"] > 0
    assert estimate["hours"] == pytest.approx(estimate["trial_hours"] / 3)
    assert estimate["money"] == pytest.approx(estimate["hours"] * 2)
    assert "evaluation" in estimate["left_out"]
    assert here("--space", good, *probing) == 0
    out = capsys.readouterr().out
    assert "with 3 at once" in out
    assert "at 2.00 an hour" in out
    assert "evaluation" in out
    assert here("--space", good, *probing, "--quiet") == 0
    assert "evaluation" not in capsys.readouterr().out


@pytest.mark.parametrize("name", BAD)
def test_bad_spaces(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(BAD[name][0])
    assert here("--space", path, "--plan") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"co2l: {path}: ")


@pytest.mark.parametrize("name", ["syntax", "unknown setting", "range with grid"])
def test_bad_spaces_in_a_process_of_their_own(name: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(BAD[name][0])
    done = process("--space", path, "--plan")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for part in BAD[name][1]:
        assert part in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--plan", "--set", "kapa=1"],
            "good.yaml with --set: settings: unknown setting 'kapa'; did you mean 'kappa'?",
        ),
        (["--plan", "--set", "eta"], "--set: 'eta' is not key=value"),
        (["--plan", "--price", "1"], "add --probe"),
        (["--plan", "--probe", "--price", "-1"], "--price: the price is -1.0"),
        (["--plan", "--probe", "--price", "nan"], "--price: the price is nan"),
        (["--plan", "--probe", "--parallel", "0"], "--parallel: 0 trials at once"),
        (["--probe"], "add --plan"),
    ],
)
def test_wrong_arguments(good: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("--space", good, *arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_a_missing_file_and_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert here("--space", "nowhere.yaml", "--plan") == 2
    assert "nowhere.yaml: cannot be read (No such file or directory); give the path" in capsys.readouterr().err
    assert here("--plan") == 2
