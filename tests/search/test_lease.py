"""One live driver per study: refused beside a living one, at once after a dead one, and told when it was replaced."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from co2l.errors import Co2lError
from co2l.search import lease
from co2l.search.lease import Lease, refuse_second_driver
from co2l.search.space import Space, parse
from co2l.search.study import Record


class Place:
    """Where the driver is written down."""

    def __init__(self) -> None:
        self.content: Any = None

    def read(self) -> Any:
        return self.content

    def write(self, driver: Any) -> None:
        self.content = driver


DRIVER = """
    import sys
    from co2l.search.space import parse
    from co2l.search.study import Record
    space = parse({"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}}, "space.yaml")
    with Record.open(sys.argv[1], "s", space).lease.beating():
        print("holds", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def space() -> Space:
    return parse({"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}}, "space.yaml")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def other(url: str) -> Iterator[subprocess.Popen[str]]:
    """A driver of the study in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        yield process
        process.kill()


def test_beside_a_living_driver_the_second_is_refused(url: str, space: Space, other: subprocess.Popen[str]) -> None:
    for fresh in (False, True):
        with pytest.raises(Co2lError, match=f"another search drives this study .process {other.pid}") as error:
            Record.open(url, "s", space, fresh=fresh)
        assert "\n" not in str(error.value)
    Record.open(url, "another", space)
    other.communicate("end\n", timeout=60)
    assert other.returncode == 0  # it still had its study, and gave it back
    Record.open(url, "s", space)


def test_after_a_killed_driver_the_next_goes_on_at_once(
    url: str, space: Space, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease.time, "sleep", lambda _: pytest.fail("it waits for a dead process of this machine"))
    other.kill()
    while Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        threading.Event().wait(0.01)
    assert not Record.open(url, "s", space).lease.lost  # not even waited for by its parent


def test_of_another_machine_only_the_beats_are_known() -> None:
    place = Place()
    silent = Lease("s", place.read, place.write)
    place.content = {**place.content, "machine": "another"}
    refuse_second_driver("s", place.read, silence=0.2)
    with silent.beating(every=0.05):
        place.content = {**place.content, "machine": "another"}
        with pytest.raises(Co2lError, match="another search drives this study"):
            refuse_second_driver("s", place.read, silence=60)
    assert place.content is None
    refuse_second_driver("s", place.read)


def test_who_was_replaced_stops_and_says_so() -> None:
    place = Place()
    first = Lease("s", place.read, place.write)

    def drive() -> None:
        with first.beating(every=0.01):
            second = Lease("s", place.read, place.write)
            end = time.monotonic() + 60
            while not first.lost and time.monotonic() < end:
                time.sleep(0.01)
            assert first.lost
            assert not second.lost

    with pytest.raises(Co2lError, match="has taken this study over"):
        drive()
    assert place.content is not None  # the second one still has it


def test_a_storage_that_is_away_for_a_while_loses_no_study() -> None:
    place = Place()

    def away() -> Any:
        calls.append(1)
        if len(calls) < 5:
            raise ConnectionError
        return place.content

    calls: list[int] = []
    one = Lease("s", away, place.write)
    with one.beating(every=0.01):
        end = time.monotonic() + 60
        while place.content["beat"] < 3 and time.monotonic() < end:
            time.sleep(0.01)
    assert place.content is None
