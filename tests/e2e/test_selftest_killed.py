"""The selftest's run that is killed: by a real signal, in a real process."""

from __future__ import annotations

from pathlib import Path

from small_runs import CPU

from co2l.cluster import selftest
from co2l.learning.methods import configure


def test_a_killed_run_leaves_a_state_and_continues_with_the_same_bits(tmp_path: Path) -> None:
    config = configure("seq_digits", "co2l", selftest.SETTINGS)
    assert selftest.killed_run(config, str(tmp_path), "cpu")
    assert list(tmp_path.rglob("*.partial")), "it was killed in the middle of a task"
    killed = selftest._finished(config, str(tmp_path), CPU)
    assert killed == selftest._finished(config, str(tmp_path / "whole"), CPU)
