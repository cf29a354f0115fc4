"""A full disk, a store that is gone or a forbidden folder is no failure of the trials that meet it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from co2l.errors import Co2lError, OutsideError, from_outside
from co2l.search.record.study import StudyRecord
from co2l.search.running.coordinator import FAULTS, Coordinator
from co2l.search.running.reports import Report
from co2l.search.running.trainable import Assignment, TrialTrainable
from co2l.search.space.space import Space, parse
from co2l.search.space.trial import Trial


class Unseen:
    """In the roles of tracker and watcher."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []

    def begin(self, trial: Trial) -> None: ...

    def report(self, *_: object) -> None: ...

    def end(self, trial_key: str, status: str, _report: object = None, reason: str = "") -> None:
        del trial_key
        self.ends.append((status, reason))

    def doing(self, what: str, *, checking: bool = False) -> None: ...

    def failed(self, *_: object, **__: object) -> None: ...

    def changed(self, *_: object) -> None: ...


def small() -> Space:
    settings = {"E_0": 1, "E_t": 1, "probe_epochs": 1}
    return parse({"benchmark": "seq_digits", "settings": settings, "axes": {"kappa": [0.1, 0.2, 0.3, 0.4]}}, "four")


def coordinated(tmp_path: Path) -> tuple[Coordinator, Unseen]:
    space, unseen = small(), Unseen()
    record = StudyRecord.open(f"sqlite:///{tmp_path}/study.db", "s", space)
    return Coordinator(space, record, unseen, unseen, reuse=False, seed=0), unseen  # type: ignore[arg-type]


def assigned(store: str, **changes: Any) -> dict[str, Any]:
    described = next(iter(small().trials())).config.as_dict()
    split = described.pop("split")
    given = {"trial": "t", "split": split, "config": {**described, **changes}, "store": store, "data": "data"}
    return Assignment(**given, device="cpu", retained=(), threads=1, save_every=60.0).as_dict()


def last_message(config: dict[str, Any]) -> dict[str, Any]:
    trainable = TrialTrainable(config)
    while not (message := trainable.step())["done"]:
        pass
    return message


def test_a_store_that_refuses_is_not_the_trials_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = last_message(assigned(f"{tmp_path}/file/store"))
    assert message["fault"] == "outside"
    assert "cannot" in message["failed"]
    assert "the same command again" in message["failed"]


@pytest.mark.parametrize(
    ("error", "outside"),
    [
        (OSError(28, "No space left on device"), True),
        (ConnectionResetError(), True),
        (PermissionError(13, "Permission denied"), True),
        (OutsideError("the store is gone"), True),
        (Co2lError("the loss became nan"), False),
        (RuntimeError("CUDA error"), False),
        (MemoryError(), False),
    ],
)
def test_what_comes_from_outside(error: Exception, outside: bool) -> None:
    assert from_outside(error) is outside
    wrapped = Co2lError("in other words")
    wrapped.__cause__ = error
    assert from_outside(wrapped) is outside


def test_a_trial_that_met_a_full_disk_is_pending_again(tmp_path: Path) -> None:
    coordinator, unseen = coordinated(tmp_path)
    for i in range(FAULTS):
        assert not coordinator.trouble
        trial = coordinator.next(str(i))
        assert isinstance(trial, Trial)
        coordinator.begun(str(i))
        coordinator.received(str(i), [], "the disk is full", "outside")
        coordinator.ended(str(i), died=False)
    assert coordinator.trouble == "the disk is full"
    assert unseen.ends == [("pending", "the disk is full")] * FAULTS
    assert {entry.status for entry in coordinator.record.entries.values()} == {"pending"}
    assert [entry.failures for entry in coordinator.record.entries.values()] == [0] * FAULTS
    assert coordinator.queue.unfinished == 4


def test_a_stage_that_is_stored_shows_that_the_store_works(tmp_path: Path) -> None:
    coordinator, _ = coordinated(tmp_path)
    for i in range(3 * FAULTS):
        trial = coordinator.next(str(i))
        assert isinstance(trial, Trial)
        coordinator.begun(str(i))
        stored = Report("task", 0, 5, 1, {}, epochs_trained=1)
        coordinator.received(str(i), [stored], "one node has no disk", "outside")
        coordinator.ended(str(i), died=False)
    assert not coordinator.trouble
