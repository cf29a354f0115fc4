"""python -m co2l.cluster selftest: what it finds on this machine, and what it says of one that is broken."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from commands import call_here
from small_runs import CPU

from co2l.cluster import selftest
from co2l.cluster.selftest import Case, Outcome
from co2l.learning.config import RunConfig
from co2l.learning.events import StepDone

TINY = Case("seq_digits", 8)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """One network, one round, and a run that is interrupted in this process instead of killed in another."""

    def interrupted(config: RunConfig, folder: str, device: str) -> bool:
        taken = 0
        for event in selftest._run(config, folder, torch.device(device)):
            taken += isinstance(event, StepDone) and event.task == 1
            if taken == 3:
                return True
        return False

    monkeypatch.setattr(selftest, "killed_run", interrupted)
    monkeypatch.setattr(selftest, "NETWORKS", {"digits_conv": {}})
    monkeypatch.setattr(selftest, "SMALL", (TINY,))
    monkeypatch.setattr(selftest, "ROUNDS", 1)
    monkeypatch.setattr(selftest, "SECONDS", 0.0)
    monkeypatch.setattr(selftest, "SLOWEST", 0.0)


def test_on_a_cpu_it_goes_as_far_as_it_can() -> None:
    outcomes = list(selftest.selftest(CPU))
    assert [(each.what, each.state) for each in outcomes] == [
        ("card", "not run"),
        ("exactness", "ok"),
        ("waits", "not run"),
        ("speed", "ok"),
        ("memory", "ok"),
    ]
    assert all("no CUDA: not run" in each.text for each in outcomes if each.state == "not run")
    figures = {each.what: each.figures for each in outcomes}
    assert figures["exactness"]["whole"] == figures["exactness"]["resumed"]
    assert figures["memory"]["ratio"] == pytest.approx(1.0, abs=0.15)


def test_other_bits_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["a" * 64, "b" * 64])
    monkeypatch.setattr(selftest, "_finished", lambda *_: next(digests))
    monkeypatch.setattr(selftest, "killed_run", lambda *_: True)
    found = selftest.exactness("digits_conv", CPU)
    assert found.state == "wrong"
    assert "OTHER bits" in found.text


def test_a_run_that_was_not_killed_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_finished", lambda *_: "a" * 64)
    monkeypatch.setattr(selftest, "killed_run", lambda *_: False)
    found = selftest.exactness("digits_conv", CPU)
    assert (found.state, found.text) == ("wrong", "digits_conv: the run to be killed ended by itself")


def stepping(warn: bool) -> Callable[[Any], Iterator[int]]:
    def steps(_: Any) -> Iterator[int]:
        while True:
            if warn:
                warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
            yield 1

    return steps


@pytest.mark.parametrize(("warn", "state"), [(False, "ok"), (True, "wrong")])
def test_waits_are_counted_by_cudas_debug_mode(warn: bool, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a mock of CUDA, which warns of every wait as the real one does: there is none here."""
    modes: list[str] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(selftest, "whole_steps", stepping(warn))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = selftest.waits(TINY, CPU)
    assert found.state == state
    assert ("test_selftest.py:" in found.text) == warn
    assert modes == ["warn", "default"]


def test_an_estimate_that_is_far_off_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "allocated", lambda *_: 10**9)
    found = selftest.memory(TINY, CPU)
    assert found.state == "wrong"
    assert "measured 954 MiB" in found.text


def test_a_test_that_breaks_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Outcome:
        raise RuntimeError("CUDA error: misaligned address\nand more")

    monkeypatch.setattr(selftest, "exactness", broken)
    outcomes = list(selftest.selftest(CPU))
    assert outcomes[1] == Outcome("exactness", "wrong", "RuntimeError: CUDA error: misaligned address")
    assert len(outcomes) == 5


@pytest.mark.parametrize(
    ("name", "gib", "state", "words"),
    [
        ("NVIDIA L40S", 44.4, "ok", "the table has 44.4 for l40s"),
        ("NVIDIA L40S", 30.0, "wrong", "30.0 GiB; the table has 44.4 for l40s"),
        ("NVIDIA B300", 250.0, "ok", "not in the table"),
    ],
)
def test_the_table_of_cards_is_checked(
    name: str, gib: float, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(name=name, total_memory=int(gib * 2**30))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: found)
    outcome = selftest.card(torch.device("cuda"))
    assert outcome.state == state
    assert words in outcome.text


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [Outcome("card", "not run", "no CUDA: not run"), Outcome("speed", "ok", "fast", {"ratio": 0.9})]
    monkeypatch.setattr(selftest, "selftest", lambda _: iter(outcomes))
    done = call_here("co2l.cluster.__main__", "selftest", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "-      card         no CUDA: not run",
        "ok     speed        fast",
        "all right, 1 not run",
    ]
    printed = json.loads(call_here("co2l.cluster.__main__", "selftest", "--json", cwd=tmp_path).stdout)
    assert printed[1] == {"what": "speed", "state": "ok", "text": "fast", "figures": {"ratio": 0.9}}
    outcomes.append(Outcome("memory", "wrong", "too large"))
    done = call_here("co2l.cluster.__main__", "selftest", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.endswith("WRONG  memory       too large\n1 wrong\n")
