"""python -m co2l.tune --plan: what it prints, and one line for every wrong input."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bad_spaces import BAD, GOOD, SAMPLED
from commands import call, call_here
from spaces import finish

from co2l.learning.config import RunConfig
from co2l.learning.footprint import Footprint, footprint
from co2l.learning.methods import METHODS
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.space import forecast, memory
from co2l.search.space.space import load
from co2l.urls import sqlite_url

ROOT = Path(__file__).resolve().parents[2]
CIFAR = ROOT / "search_spaces" / "seq_cifar10.yaml"


def here(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return call_here("co2l.tune", *arguments, cwd=ROOT)


@pytest.fixture(scope="module", autouse=True)
def counted_once() -> Iterator[None]:
    """A step takes what it takes in every plan; to count it takes a second."""
    known: dict[tuple[object, ...], Footprint] = {}

    def once(config: RunConfig, *of: Any) -> Footprint:
        if (key := (config.key, METHODS[config.method].step, *of)) not in known:  # a test gives a method another one
            known[key] = footprint(config, *of)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (memory, forecast):
            patch.setattr(module, "footprint", once)
        yield


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def test_the_plan_of_the_papers_grid() -> None:
    done = here("--space", CIFAR, "--plan", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert plan.keys() >= {"trials", "first_stages", "stages", "epochs_naive", "epochs_planned", "ratio"}
    assert (plan["trials"], plan["first_stages"]) == (648, 27)
    assert plan["stages"] == 27 + 648 * 4
    assert plan["epochs_naive"] == 324 * (500 + 4 * 50) + 324 * (500 + 4 * 100)
    assert plan["epochs_planned"] == 27 * 500 + 324 * 4 * 50 + 324 * 4 * 100
    assert plan["ratio"] == pytest.approx(518_400 / 207_900)
    assert plan["ratio"] >= 2.49


def test_the_plan_as_text() -> None:
    done = here("--space", CIFAR, "--plan")
    assert done.returncode == 0
    assert all(line.startswith("warning: a trial needs a GPU") for line in done.stderr.splitlines())  # here or not
    for part in ("648", "27 distinct", "2,619 distinct", "207,900, without reuse 518,400 (2.49 times)"):
        assert part in done.stdout


def test_a_plan_by_chance_says_so(tmp_path: Path) -> None:
    path = tmp_path / "sampled.yaml"
    path.write_text(SAMPLED)
    out = here("--space", path, "--plan").stdout
    assert "about" in out
    assert "The trials are 5 random samples" in out
    assert json.loads(here("--space", path, "--plan", "--json").stdout)["exact"] is False
    path.write_text(GOOD + "early_stop: on\n")
    assert "at most" in here("--space", path, "--plan").stdout


def test_settings_are_overridden(good: Path) -> None:
    plan = json.loads(here("--space", good, "--plan", "--json", "--set", "E_0=7", "--set", "eta=0.5").stdout)
    assert (plan["trials"], plan["first_stages"]) == (8, 2)
    assert plan["epochs_naive"] == 8 * (7 + 4 * 1)


def test_probe_and_price(good: Path) -> None:
    probing = ["--plan", "--measure", "--price", "2", "--parallel", "3"]
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


def test_the_memory_of_a_trial_and_the_cards_that_hold_it(good: Path) -> None:
    memory = json.loads(here("--space", good, "--plan", "--json", "--gpus-per-trial", "0.01").stdout)["memory"]
    (need,) = memory["needs"]
    assert need["peak_bytes"] == sum(need["bytes"].values()) > 0
    assert memory["cards"] == ["a100-80gb", "h100", "h200"]  # 0.75 GiB of a hundredth is CUDA's own
    assert "of a share of 0.01" in here("--space", good, "--plan", "--gpus-per-trial", "0.01").stdout
    assert "cards" not in here("--space", good, "--plan").stdout


def test_a_plan_without_the_memory_of_a_method_that_cannot_be_estimated(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METHODS["co2l"], "step", lambda self, *_: next(self.psi.parameters()).numpy())
    done = here("--space", good, "--plan")
    assert done.returncode == 0
    assert "memory        co2l: what it needs cannot be estimated (" in done.stdout
    assert "memory" not in json.loads(here("--space", good, "--plan", "--json").stdout)
    assert here("--space", good, "--plan", "--on", "a10g").returncode == 2


def test_hours_and_money_on_a_card_that_is_not_here(tmp_path: Path) -> None:
    """Of MNIST, which is not here either."""
    path = tmp_path / "space.yaml"
    path.write_text("benchmark: r_mnist\naxes: {kappa: [0.1, 0.2]}\n")
    asked = ["--space", path, "--plan", "--on", "A10G", "--price", "2", "--parallel", "4", "--data", tmp_path]
    estimate = json.loads(here(*asked, "--json").stdout)["estimate"]
    assert (estimate["card"], estimate["parallel"]) == ("A10G", 4)
    assert estimate["money"] == pytest.approx(2 * estimate["trial_hours"] / 4)
    assert "factor of 2" in estimate["assumed"]
    done = here(*asked)
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("A10G: fits", "on one A10G", "with 4 at once", "at 2.00 an hour", "No line of it was measured"):
        assert part in done.stdout


def test_the_plan_says_what_it_is_timing(good: Path) -> None:
    first, *warnings = here("--space", good, "--plan", "--measure").stderr.splitlines()
    assert first == "timing steps on this machine, 1 of 1"
    assert all(line.startswith("warning: ") for line in warnings)
    assert here("--space", good, "--plan", "--measure", "--quiet").stderr == ""


@pytest.mark.parametrize("name", BAD)
def test_bad_spaces(name: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(BAD[name][0])
    done = here("--space", path, "--plan")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"co2l: {path}: ")
    for part in BAD[name][1]:
        assert part in done.stderr


def test_a_bad_space_in_a_process_of_its_own(tmp_path: Path) -> None:
    text, parts = BAD["unknown setting"]
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    done = call("co2l.tune", "--space", path, "--plan", cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--plan", "--set", "kapa=1"],
            "good.yaml with --set: settings: unknown setting 'kapa'; did you mean 'kappa'?",
        ),
        (["--plan", "--set", "eta"], "--set: 'eta' is not key=value"),
        (["--plan", "--price", "1"], "add --measure"),
        (["--plan", "--measure", "--price", "-1"], "--price: '-1' is not a number from 0"),
        (["--plan", "--measure", "--price", "nan"], "--price: 'nan' is not a number from 0"),
        (["--plan", "--measure", "--parallel", "0"], "--parallel: '0' is not a whole number from 1"),
        (["--measure"], "add --plan"),
        (["--on", "a10g"], "--on is part of the plan; add --plan"),
        (["--plan", "--on", "a10"], "--on: unknown card 'a10'; did you mean 'a10g'?"),
        (["--plan", "--on", "a10g", "--measure"], "leave out one of them"),
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


def test_the_plan_names_what_is_taken_from_an_earlier_study(good: Path, tmp_path: Path) -> None:
    space = load(good)
    record = StudyRecord.open(sqlite_url(tmp_path / "study.db"), "before", space)
    best, *others = space.trials()
    for trial in others[:1]:
        finish(record, trial, 10.0)
    finish(record, best, 90.0)
    asked = "--space", good, "--plan", "--root", tmp_path, "--from-study"
    shown = json.loads(here(*asked, "before", "--json").stdout)["begins_with"]
    assert shown["study"] == "before"
    assert shown["points"][0] == {name: best.values[name] for name in shown["points"][0]}
    assert "of 'before': " in here(*asked, "before").stdout
    wrong = here(*asked, "befor")
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "did you mean 'before'?" in wrong.stderr
    assert StudyReader(sqlite_url(tmp_path / "study.db")).names() == ["before"]
