"""A poisoned process ends and its trial is lost, a full card is told of once, and one trial's end harms no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_outside import assigned, coordinated

from co2l.learning.methods.co2l import Co2L
from co2l.search.record.study import LOST, MAX_PROCESSES_LOST
from co2l.search.running.reports import Report
from co2l.search.running.trainable import TrialTrainable
from co2l.search.space.trial import Trial

STICKY = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class ProcessEndError(BaseException):
    """Instead of the end of the process."""


@pytest.fixture(autouse=True)
def _process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(code: int) -> None:
        raise ProcessEndError(code)

    monkeypatch.setattr("os._exit", end)


def breaking(monkeypatch: pytest.MonkeyPatch, error: Exception, *, after: int = 3) -> None:
    """Training steps raise `error` from the given one on."""
    honest, taken = Co2L.step, [0]

    def step(self: Co2L, *args: Any) -> dict[str, torch.Tensor]:
        taken[0] += 1
        if taken[0] > after:
            raise error
        return honest(self, *args)

    monkeypatch.setattr(Co2L, "step", step)


def last_word(trainable: TrialTrainable) -> dict[str, Any]:
    while not (message := trainable.step()).get("failed"):
        assert not message["done"]
    return message


def test_a_process_with_a_sticky_error_ends_and_is_never_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking(monkeypatch, STICKY)
    poisoned = TrialTrainable(assigned(f"{tmp_path}/store"))
    message = last_word(poisoned)
    assert (message["failed"], message["fault"], message["done"]) == (str(STICKY), "lost", False)
    with pytest.raises(ProcessEndError):
        poisoned.step()
    with pytest.raises(ProcessEndError):
        poisoned.reset_config(assigned(f"{tmp_path}/store"))


def test_a_trial_whose_process_was_poisoned_is_lost_and_not_failed(tmp_path: Path) -> None:
    coordinator, unseen = coordinated(tmp_path)
    trial = coordinator.next("0")
    assert isinstance(trial, Trial)
    coordinator.begun("0")
    assert not coordinator.received("0", [Report("epoch", 0, 5, 1, {})], str(STICKY), "lost")
    coordinator.ended("0", died=True)
    entry = coordinator.record.entries[trial.key]
    assert (entry.status, entry.failures) == ("pending", 0)
    assert entry.reason == f"{LOST} ({STICKY})"
    attempts = 1
    while isinstance(coordinator.next(str(attempts)), Trial):
        coordinator.begun(str(attempts))
        coordinator.received(str(attempts), [], str(STICKY), "lost")
        coordinator.ended(str(attempts), died=True)
        attempts += 1
    assert attempts == 4 * MAX_PROCESSES_LOST + 1  # the first attempt of the first trial came to a new epoch
    assert {each.status for each in coordinator.record.entries.values()} == {"failed"}
    assert "illegal memory access" in entry.reason
    assert unseen.ends[-1][0] == "failed"


@pytest.mark.parametrize("error", [FULL, torch.AcceleratorError("CUDA error: out of memory")])
def test_a_full_card_is_told_of_in_one_line(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, error)
    found = SimpleNamespace(name="NVIDIA A10G", total_memory=22.1 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    trainable = TrialTrainable({**assigned(f"{tmp_path}/store"), "gpus": 0.25})
    monkeypatch.setattr("co2l.search.running.faults.choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr("co2l.search.running.faults.footprint", lambda _: SimpleNamespace(peak=5 * 2**30))
    message = last_word(trainable)
    assert (message["fault"], message["done"]) == ("hopeless", True)
    assert message["failed"] == (
        "NVIDIA A10G (22.1 GiB): out of memory: the trial has 0.25 of it, and needs about 6.2 GiB; give it a larger "
        "share (--gpus-per-trial), or set recompute=true, precision=bf16 or a smaller batch_size"
    )


def test_a_trial_that_is_too_large_is_not_tried_again(tmp_path: Path) -> None:
    coordinator, unseen = coordinated(tmp_path)
    assert coordinator.space.retries > 0
    trial = coordinator.next("0")
    assert isinstance(trial, Trial)
    coordinator.begun("0")
    coordinator.received("0", [], "out of memory", "hopeless")
    coordinator.ended("0", died=False)
    assert coordinator.record.entries[trial.key].status == "failed"
    assert unseen.ends == [("failed", "out of memory")]
    assert coordinator.queue.unfinished == 3


def test_a_trial_that_ends_badly_does_not_fail_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped while its loss is not a number, it cannot save its state: the next trial had to pay for that."""
    honest = Co2L.step

    def step(self: Co2L, *args: Any) -> dict[str, torch.Tensor]:
        return {name: loss * float("nan") for name, loss in honest(self, *args).items()}

    monkeypatch.setattr(Co2L, "step", step)
    trainable = TrialTrainable(assigned(f"{tmp_path}/store"))
    next(trainable.events)  # in the middle of an epoch
    monkeypatch.setattr(Co2L, "step", honest)
    assert trainable.reset_config(assigned(f"{tmp_path}/store"))
    while not (message := trainable.step())["done"]:
        pass
    assert not message.get("failed")
