"""The lines that a search leaves in a log."""

from __future__ import annotations

import pytest

from co2l import display, search_progress
from co2l.search.reports import Entry
from co2l.search.space import parse


def test_a_log_says_each_thing_once_and_counts_from_the_start_of_its_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    for module in (display, search_progress):
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    space = parse({"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2, 0.3, 0.4]}}, "four")
    entries = {"a": Entry(0, "a", {"kappa": 0.1}, 0, "done", score=70.0)}  # of an earlier process
    progress = search_progress.SearchProgress(space, quiet=False)
    for at, status, part_done in (
        (20, "running", 0.0),
        (60, "running", 0.1),
        (100, "running", 0.2),
        (140, "running", 0.6),
        (160, "done", 0.0),
        (240, "done", 0.5),
    ):
        now[0] = 1000.0 + at
        entries["b"] = Entry(1, "b", {"kappa": 0.2}, 0, status, score=80.0 if status == "done" else None)
        progress.changed(running=1, part_done=part_done, entries=entries)
    assert capsys.readouterr().err.splitlines() == [
        "1/4 cells done · 1 running · best 70.00 (kappa=0.1)",
        "1/4 cells done · 1 running (20%) · best 70.00 (kappa=0.1)",  # a minute after the last line, not at 10%
        "2/4 cells done · 1 running · best 80.00 (kappa=0.2) · ETA 5:20",  # one in 160 s, and two are left
        "2/4 cells done · 1 running (50%) · best 80.00 (kappa=0.2) · ETA 6:00",  # one and a half
    ]
