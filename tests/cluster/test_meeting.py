"""How the nodes of a Slurm search find its head."""

from __future__ import annotations

from pathlib import Path

import pytest

from co2l.cluster import meeting
from co2l.cluster.meeting import Head, read, versions, wait_for_head
from co2l.errors import Co2lError


def look(root: Path, job: str | None = None) -> Head | None:
    return wait_for_head(root, lambda head: job in (None, head.job), lambda: False, patience=0.05)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "LOOK_SECONDS", 0.01)


def test_only_its_owner_reads_where_the_head_is(tmp_path: Path) -> None:
    head = Head("running", "7.0", "10.0.0.1:1234", "secret", versions())
    head.announce(tmp_path)
    assert (tmp_path / "head.json").stat().st_mode & 0o777 == 0o600
    assert read(tmp_path) == head
    assert look(tmp_path) == head


def test_a_head_that_is_away_or_of_another_start_is_waited_for(tmp_path: Path) -> None:
    assert look(tmp_path) is None
    Head("away", "7.0").announce(tmp_path)
    assert look(tmp_path) is None
    Head("running", "7.0", "10.0.0.1:1234", "secret", versions()).announce(tmp_path)
    assert look(tmp_path, "7.1") is None
    Head("ended", "7.1").announce(tmp_path)
    found = look(tmp_path, "7.1")
    assert found is not None
    assert found.state == "ended"


def test_other_versions_are_refused(tmp_path: Path) -> None:
    Head("running", "7.0", "10.0.0.1:1234", "secret", "co2l 0.1.0, Ray 2.55.0").announce(tmp_path)
    with pytest.raises(Co2lError, match=r"the search's head has co2l 0\.1\.0, Ray 2\.55\.0"):
        look(tmp_path)
