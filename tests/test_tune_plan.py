"""python -m co2l.tune --plan: what it prints, and one line for every wrong input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from bad_spaces import BAD, GOOD, SAMPLED
from commands import call, call_here

ROOT = Path(__file__).resolve().parents[1]
CIFAR = ROOT / "search_spaces" / "seq_cifar10.yaml"


def here(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call_here("co2l.tune", *arguments, cwd=ROOT)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def test_the_plan_of_the_papers_grid() -> None:
    done = call("co2l.tune", "--space", CIFAR, "--plan", "--json", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert plan.keys() >= {"cells", "first_stages", "stages", "epochs_naive", "epochs_planned", "ratio"}
    assert (plan["cells"], plan["first_stages"]) == (648, 27)
    assert plan["stages"] == 27 + 648 * 4
    assert plan["epochs_naive"] == 324 * (500 + 4 * 50) + 324 * (500 + 4 * 100)
    assert plan["epochs_planned"] == 27 * 500 + 324 * 4 * 50 + 324 * 4 * 100
    assert plan["ratio"] == pytest.approx(518_400 / 207_900)
    assert plan["ratio"] >= 2.49


def test_the_plan_as_text() -> None:
    done = here("--space", CIFAR, "--plan")
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("648", "27 distinct", "2,619 distinct", "207,900, without reuse 518,400 (2.49 times)"):
        assert part in done.stdout


def test_a_plan_by_chance_says_so(tmp_path: Path) -> None:
    path = tmp_path / "sampled.yaml"
    path.write_text(SAMPLED)
    out = here("--space", path, "--plan").stdout
    assert "about" in out
    assert "random draw of 5 samples" in out
    assert json.loads(here("--space", path, "--plan", "--json").stdout)["exact"] is False
    path.write_text(GOOD + "early_stop: on\n")
    assert "at most" in here("--space", path, "--plan").stdout


def test_settings_are_overridden(good: Path) -> None:
    plan = json.loads(here("--space", good, "--plan", "--json", "--set", "E_0=7", "--set", "eta=0.5").stdout)
    assert (plan["cells"], plan["first_stages"]) == (8, 2)
    assert plan["epochs_naive"] == 8 * (7 + 4 * 1)


def test_probe_and_price(good: Path) -> None:
    probing = ["--plan", "--probe", "--price", "2", "--parallel", "3"]
    estimate = json.loads(here("--space", good, *probing, "--json").stdout)["estimate"]
    assert estimate["trial_hours_naive"] > estimate["trial_hours"] > 0
    assert estimate["hours"] == pytest.approx(estimate["trial_hours"] / 3)
    assert estimate["money"] == pytest.approx(estimate["hours"] * 2)
    assert "evaluation" in estimate["left_out"]
    out = here("--space", good, *probing).stdout
    assert "with 3 at once" in out
    assert "at 2.00 an hour" in out
    assert "evaluation" in out
    quiet = here("--space", good, *probing, "--quiet")
    assert quiet.returncode == 0
    assert "evaluation" not in quiet.stdout


@pytest.mark.parametrize("name", BAD)
def test_bad_spaces(name: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(BAD[name][0])
    done = here("--space", path, "--plan")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"co2l: {path}: ")


@pytest.mark.parametrize("name", ["syntax", "unknown setting", "range with grid"])
def test_bad_spaces_in_a_process_of_their_own(name: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(BAD[name][0])
    done = call("co2l.tune", "--space", path, "--plan", cwd=ROOT)
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
def test_wrong_arguments(good: Path, arguments: list[str], message: str) -> None:
    done = here("--space", good, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_a_missing_file_and_no_file() -> None:
    done = here("--space", "nowhere.yaml", "--plan")
    assert done.returncode == 2
    assert "nowhere.yaml: cannot be read (No such file or directory); give the path" in done.stderr
    assert here("--plan").returncode == 2
