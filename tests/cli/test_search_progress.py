"""The lines that a search leaves in a log, and the rows that it shows in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from co2l.cli import display, search_progress
from co2l.cli.display import Display
from co2l.cli.search_progress import SearchProgress
from co2l.learning.progress import Position
from co2l.search.record.entries import Cost, Entry
from co2l.search.running.coordinator import Running
from co2l.search.space.evaluation import of_space
from co2l.search.space.space import Space, parse

SPACE = parse({"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2, 0.3, 0.4]}}, "four")
TRIALS = list(SPACE.trials())


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [1000.0]
    for module in (display, search_progress):
        monkeypatch.setattr(module.time, "monotonic", lambda: at[0])
    return at


def entry(n: int, status: str, score: float | None = None) -> Entry:
    return Entry(TRIALS[n].key, TRIALS[n].values, 0, status, score=score)  # type: ignore[arg-type]


def test_a_log_says_each_thing_once_and_counts_from_its_first_trial(
    now: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = SearchProgress(Display(quiet=False), SPACE)
    progress.doing("starting Ray")
    for at, status, part_done in (
        (20, "running", 0.0),
        (60, "running", 0.1),
        (100, "running", 0.2),
        (140, "running", 0.6),
        (180, "done", 0.0),
        (260, "done", 0.5),
    ):
        now[0] = 1000.0 + at
        ended = entry(0, "done", 70.0)  # by an earlier process
        entries = {"a": ended, "b": entry(1, status, 80.0 if status == "done" else None)}
        progress.changed([Running(TRIALS[2], part_done, None)], entries)
    assert capsys.readouterr().err.splitlines() == [
        "co2l on seq_digits, grid, 4 trials: starting Ray",
        "1/4 trials done · 1 running · best 70.00 (kappa=0.1)",
        # a minute after the last line, not at 10%: a fifth took 80 s, and 2.8 are left
        "1/4 trials done · 1 running (20%) · ETA 18:40 · best 70.00 (kappa=0.1)",
        "2/4 trials done · 1 running · ETA 5:20 · best 80.00 (kappa=0.2)",  # one in 160 s, and two are left
        "2/4 trials done · 1 running (50%) · ETA 4:00 · best 80.00 (kappa=0.2)",  # one and a half in 240 s
    ]


def test_no_time_is_estimated_from_next_to_nothing(now: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """80 s for a thousandth of the first of four trials would be 89 hours."""
    progress = SearchProgress(Display(quiet=False), SPACE)
    for at, part_done in ((0, 0.0), (80, 0.001), (160, 0.1)):
        now[0] = 1000.0 + at
        progress.changed([Running(TRIALS[1], part_done, None)], {"b": entry(1, "running")})
    lines = capsys.readouterr().err.splitlines()
    assert ["ETA" in line for line in lines] == [False, False, True]
    assert "ETA 1:44:00" in lines[-1]  # 160 s for a tenth, and 3.9 are left


class Screen(Display):
    """A display on a terminal, of which only the rows are kept."""

    is_live = True  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(quiet=False)
        self.rows: list[str] = []

    def draw(self, text: str, rows: Sequence[str | Text] = ()) -> None:
        self.rows = [str(row) for row in rows or [text]]


def shown(space: Space, running: list[Running], entries: dict[str, Entry]) -> list[str]:
    screen = Screen()
    SearchProgress(screen, space).changed(running, entries)
    return screen.rows


def test_a_terminal_shows_where_each_trial_is(now: list[float]) -> None:
    del now
    training = Position(1, 5, 3, 10, 12, 40, 0.3, views_per_second=1234.4, seconds_left=61.0)
    evaluating = Position(4, 5, 10, 10, 1, 1, 1.0, probe="paper")
    running = [Running(TRIALS[0], 0.3, training), Running(TRIALS[1], 1.0, evaluating), Running(TRIALS[2], 0.0, None)]
    assert shown(SPACE, running, {}) == [
        "0/4 trials done · 3 running",
        "  task 2/5 · epoch 3/10 · step 12/40 · 1,234 views/s · ETA 1:01 · kappa=0.1",
        "  task 5/5 · evaluating (paper probe) · kappa=0.2",
        "  starting · kappa=0.3",
    ]
    assert shown(SPACE, 25 * running, {})[-2:] == [
        "  task 2/5 · epoch 3/10 · step 12/40 · 1,234 views/s · ETA 1:01 · kappa=0.1",
        "  and 71 more",
    ]


def test_a_log_tells_where_the_only_trial_is(now: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    del now
    training = Position(0, 5, 3, 10, 12, 40, 0.3, views_per_second=1234.4, seconds_left=61.0)
    SearchProgress(Display(quiet=False), SPACE).changed([Running(TRIALS[0], 0.3, training)], {})
    line = "0/4 trials done · 1 running (task 1/5, epoch 3/10, step 12/40, 1,234 views/s, ETA 1:01)\n"
    assert capsys.readouterr().err == line


def test_an_evaluation_does_not_rank_seeds(now: list[float]) -> None:
    del now
    evaluation = of_space(SPACE, 2)
    assert shown(evaluation, [], {"a": entry(0, "done", 70.0)}) == ["1/8 trials done · 0 running"]


def test_a_failure_is_said_with_its_last_words_and_its_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    progress, log = SearchProgress(Display(quiet=False), SPACE), tmp_path / "a.log"
    words = "Traceback (most recent call last):\n  a line\nValueError: too small"
    progress.failed(TRIALS[1], words, log, again=False)
    line = f"trial {TRIALS[1].key[:8]} (kappa=0.2) failed: ValueError: too small; log: {log}\n"
    assert capsys.readouterr().err == line


def test_verbose_tells_every_begin_and_end(now: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    del now
    progress = SearchProgress(Display(quiet=False), SPACE, verbose=True)
    begun, ended = entry(1, "running"), entry(1, "done", 81.234)
    ended.cost = Cost(seconds=75.0)
    for known in ({"a": entry(0, "done", 70.0)}, {"b": begun}, {"b": begun}, {"b": ended}):
        progress.changed([], known)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("trial ")]
    assert said == ["trial b (kappa=0.2, seed 0) running", "trial b (kappa=0.2, seed 0) done 81.23 in 1:15"]


def test_values_are_rounded(now: list[float]) -> None:
    del now
    found = {"a": Entry("a", {"kappa": 0.12345678901}, 0, "done", score=70.123456)}
    assert shown(SPACE, [], found)[0].endswith("best 70.12 (kappa=0.123457)")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, ""),
        ({"seeds": [0, 1]}, " (2 samples, each with 2 seeds)"),
        ({"selection": {"mean_over": ["buffer_size"]}}, " (2 samples, each with 2 values of buffer_size)"),
    ],
)
def test_more_trials_than_samples_say_why(keys: dict[str, Any], said: str) -> None:
    axes = {"kappa": [0.1, 0.2, 0.3], "buffer_size": [50, 100]}
    space = parse({"benchmark": "seq_digits", "axes": axes, "algorithm": "random", "samples": 2, **keys}, "test")
    assert search_progress.why_more_trials(space) == said


def test_a_trial_whose_features_died_is_warned_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = SearchProgress(Display(quiet=False), SPACE)
    dead = {"dead_features": [10.0, 92.0, 95.0]}
    entries = {"a": replace(entry(0, "done", 9.0), result=dead), "b": replace(entry(1, "done", 80.0), result={})}
    for _ in range(2):
        progress.changed([], entries)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "dead" in line]
    assert line.startswith("warning: trial a (kappa=0.1, seed 0): 92% of the encoder's features are dead after task 2")
