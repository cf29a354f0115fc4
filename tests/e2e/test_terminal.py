"""The first minute of a search as it is seen in a terminal of 120×40 and one of 80×24: resized, stopped, continued."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from searches import write_space
from terminal import PROMPT, Terminal, terminal

CLOCK = re.compile(r"(\d+):(\d\d) ")
SETTINGS = {"E_0": 300, "E_t": 4, "probe_epochs": 10}  # long enough to look at
COMMAND = "python -m co2l.tune --space small.yaml"


def clocks(lines: list[str]) -> list[int]:
    return [60 * int(found[1]) + int(found[2]) for line in lines if (found := CLOCK.match(line))]


def training(lines: list[str]) -> bool:
    return any(re.match(r"  task 1/5 · epoch \d+/300 · .*views/s · ETA ", line) for line in lines)


def ended(lines: list[str]) -> bool:
    return lines[-1] == PROMPT


def phases(screens: list[list[str]]) -> list[str]:
    """What the first row said one after the other, without clock and counts."""
    rows = [line[CLOCK.match(line).end() :] for lines in screens for line in lines if CLOCK.match(line)]  # type: ignore[union-attr]
    known = [re.sub(r"^\d/2 trials done.*", "trials", re.sub(r"^stopping.*", "stopping", row)) for row in rows]
    return [row for row, before in zip(known, ["", *known], strict=False) if row != before]


def check_rows(screens: list[list[str]]) -> None:
    """A clock's row, one for each running trial, and nothing that was left behind or broken in two."""
    for lines in screens:
        shown = [line for line in lines if PROMPT not in line]
        first = next((i for i, line in enumerate(shown) if CLOCK.match(line)), len(shown))
        assert len(clocks(shown)) <= 1, "\n".join(lines)
        assert all(re.match(r"  (task \d/5|starting) ", line) for line in shown[first + 1 :]), "\n".join(lines)
        assert len(shown[first + 1 :]) <= 1, "\n".join(lines)


def resize(screen: Terminal, width: int, height: int) -> None:
    """The rows are drawn anew at the clock's next second."""
    before = clocks(screen.screen())
    screen.resize(width, height)
    check_rows([screen.watch(lambda lines: clocks(lines) != before)[-1]])


def check_changes(screen: Terminal, since: int) -> None:
    """On average a row changed at least every five seconds; how long the longest silence was is printed."""
    samples = screen.recorded[since:]
    changed = [samples[0][0], *(b[0] for a, b in itertools.pairwise(samples) if a[1] != b[1])]
    gaps = [later - earlier for earlier, later in itertools.pairwise(changed)]
    print(f"first characters after {gaps[0]:.2f} s, longest silence {max(gaps):.2f} s in {sum(gaps):.0f} s")
    assert len(gaps) >= sum(gaps) / 5


def test_a_search_is_never_silent_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_space(tmp_path, settings=SETTINGS, axes={"kappa": [0.1, 0.2]}, selection={})
    with terminal(tmp_path, 120, 40) as screen:
        since = len(screen.recorded)
        screen.type(f"{COMMAND} --max-concurrent 1")
        seen = screen.watch(training)
        check_rows(seen)
        said = phases(seen)
        assert said[0] == "reading small.yaml"
        assert said[-2:] == ["co2l on seq_digits, grid, 2 trials: starting Ray", "trials"]
        resize(screen, 80, 24)
        screen.press("C-c")
        stopped = screen.watch(ended)
        assert "stopping" in phases(stopped)
        assert "2 trials are left; run the same command to continue" in stopped[-1]
        check_changes(screen, since)

        screen.clear()
        since = len(screen.recorded)
        screen.type(f"{COMMAND} --max-concurrent 1")
        seen = screen.watch(training)
        check_rows(seen)
        resize(screen, 120, 40)
        finished = screen.watch(ended)
        check_rows(finished[:-1])
        assert "selected configurations: runs/selected/small.yaml" in finished[-1]
        assert not clocks(finished[-1]), "nothing of the rows stays"
        check_changes(screen, since)
