"""One driver per study, decided by a lock: refused beside a living one, at once after a dead one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from commands import FORKS

from co2l.errors import Co2lError
from co2l.search.record import locks
from co2l.search.record.lease import driving
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space, parse

REFUSED = "another search drives this study (process {pid} on "


def space_of() -> Space:
    return parse({"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}}, "space.yaml")


def drive(url: str, study: str, start: float, told: Connection) -> None:
    """In a process of its own: what a search does first, at the given time, until it is told to end."""
    time.sleep(max(0.0, start - time.time()))
    try:
        with driving(url, study):
            StudyRecord.open(url, study, space_of())
            told.send("drives")
            told.recv()
    except Exception as error:
        told.send(str(error) if isinstance(error, Co2lError) else repr(error))


class Driver:
    """A driver in a process of its own."""

    def __init__(self, url: str, study: str = "s", start: float = 0.0) -> None:
        self.told, theirs = FORKS.Pipe()
        self.process = FORKS.Process(target=drive, args=(url, study, start, theirs), daemon=True)
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    def says(self) -> str:
        assert self.told.poll(60)
        return str(self.told.recv())

    def kill(self) -> None:
        self.process.kill()
        self.process.join(60)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def other(url: str) -> Iterator[Driver]:
    driver = Driver(url)
    assert driver.says() == "drives"
    yield driver
    driver.kill()


def refusal(url: str) -> str:
    with pytest.raises(Co2lError) as error, driving(url, "s"):
        pass
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.e2e
def test_of_all_that_start_at_once_one_drives_and_the_others_name_it(url: str) -> None:
    """They made the same tables, and two of them could drive the study until a beat."""
    start = time.time() + 1.0
    drivers = [Driver(url, "s", start) for _ in range(4)]
    elsewhere = Driver(url, "another", start)  # the same database, with nobody in its way
    answers = [driver.says() for driver in drivers]
    assert answers.count("drives") == 1, answers
    holder = drivers[answers.index("drives")]
    for answer in answers:
        assert answer == "drives" or REFUSED.format(pid=holder.pid) in answer
    assert elsewhere.says() == "drives"
    assert StudyReader(url).names() == ["another", "s"]
    for driver in (*drivers, elsewhere):
        driver.kill()


@pytest.mark.e2e
def test_a_living_driver_keeps_its_study_even_if_it_is_stopped(url: str, other: Driver) -> None:
    assert REFUSED.format(pid=other.pid) in refusal(url)
    other_study = Driver(url, "another")
    assert other_study.says() == "drives"
    other_study.kill()
    os.kill(other.pid, signal.SIGSTOP)
    assert REFUSED.format(pid=other.pid) in refusal(url)
    os.kill(other.pid, signal.SIGCONT)
    other.told.send("end")
    other.process.join(60)
    with driving(url, "s") as lease:
        assert not lease.lost


@pytest.mark.e2e
def test_after_a_killed_driver_the_next_drives_at_once(
    url: str, other: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.kill()
    monkeypatch.setattr(locks.time, "sleep", lambda _: pytest.fail("it waits for a dead process"))
    with driving(url, "s") as lease:
        assert not lease.lost
        assert REFUSED.format(pid=os.getpid()) in refusal(url)


def test_one_that_stopped_while_opening_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("co2l.search.record.lease.WAIT", 0.05)
    with locks.alone(url, 0.05):
        assert "another process is opening this database" in refusal(url)
    with driving(url, "s"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"study.db.locks"}


class Away:
    """A lock whose database answers as `answers` say, one after the other."""

    def __init__(self, answers: list[str | Exception]) -> None:
        self.answers, self.released = answers, False

    def take(self, driver: str) -> str:
        return driver

    def keep(self, driver: str) -> str:
        answer = self.answers.pop(0) if self.answers else driver
        if isinstance(answer, Exception):
            raise answer
        return answer or driver

    def release(self) -> None:
        self.released = True


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str | Exception]], Away]:
    def answering(answers: list[str | Exception]) -> Away:
        lock = Away(answers)
        monkeypatch.setattr("co2l.search.record.lease.driver_lock", lambda *_: lock)
        return lock

    return answering


def waited(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_who_was_replaced_stops_and_says_so(url: str, away: Callable[[list[str | Exception]], Away]) -> None:
    lock = away(["", "0 process 1 on another"])
    with pytest.raises(Co2lError, match="has taken this study over"), driving(url, "s", every=0.01) as lease:
        assert waited(lambda: lease.lost)
    assert lock.released


def test_a_storage_that_is_away_for_a_while_loses_no_study(
    url: str, away: Callable[[list[str | Exception]], Away]
) -> None:
    lock = away([ConnectionError(), ConnectionError(), "", ""])
    with driving(url, "s", every=0.01) as lease:
        assert waited(lambda: not lock.answers)
        assert not lease.lost


@pytest.mark.parametrize("storage", ["sqlite://", "sqlite:///:memory:", "mysql://u:secret@h/db", "foo://x"])
def test_a_database_without_locks_is_refused(storage: str) -> None:
    assert "is no database that can hold a record; write for example sqlite:///" in refusal(storage)
    assert "secret" not in refusal(storage)
