"""What a Slurm job is asked to do, and how a worker follows one head after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from co2l.cli.console import INTERRUPTED, OK
from co2l.cluster import meeting, ray_node, slurm_task
from co2l.cluster.meeting import Head, versions
from co2l.cluster.ray_node import Resources, allocated
from co2l.cluster.slurm_task import task_of
from co2l.errors import Co2lError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CO2L_ROOT", "CO2L_STORE", "CUDA_VISIBLE_DEVICES", "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(meeting, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(slurm_task, "HEAD_SECONDS", 0.05)


def test_each_search_has_its_own_root_and_all_share_a_store(tmp_path: Path) -> None:
    task = task_of(["--space", "search_spaces/seq_digits.yaml", "--seed", "3"])
    assert task.command == "tune"
    assert task.root == tmp_path / "runs" / "seq_digits"
    assert task.store == f"{tmp_path}/runs/store"
    assert task.arguments == ("--space", "search_spaces/seq_digits.yaml", "--seed", "3")
    assert task_of(["--space", "a.yaml", "--study", "mine"]).root == tmp_path / "runs" / "mine"
    assert task_of(["evaluate", "--study", "mine", "--seeds", "5"]).command == "evaluate"


def test_root_and_store_are_the_job_s_and_not_the_command_s(tmp_path: Path) -> None:
    task = task_of(["--space", "a.yaml", "--root", "here", "--store", "s3://bucket", "--driver-only", "--umask", "007"])
    assert (task.root, task.store, task.driver_only, task.mask) == (tmp_path / "here", "s3://bucket", True, 0o007)
    assert task.arguments == ("--space", "a.yaml", "--umask", "007")


def test_a_job_without_a_space() -> None:
    with pytest.raises(Co2lError, match="no space is given"):
        task_of(["--seed", "1"])


def test_the_share_of_a_node_is_what_slurm_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    assert allocated() == Resources(1, 0)
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "12")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert allocated() == Resources(12, 2)
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    assert allocated() == Resources(12, 4)


def test_trials_get_no_password_of_the_driver_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CO2L_STORAGE", "postgresql://co2l:secret@db/co2l")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    given = ray_node._environment()
    assert not [name for name, value in given.items() if "secret" in value]
    assert "RAY_ADDRESS" not in given
    assert given["RAY_AUTH_MODE"] == "token"


def test_a_worker_follows_heads_until_the_search_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []

    def serve(head: Head, _asked: object) -> None:
        served.append(head.job)
        following = {"7.0": Head("running", "7.1", "b:2", "t", versions()), "7.1": Head("ended", "7.1")}
        following[head.job].announce(tmp_path)

    monkeypatch.setattr(slurm_task, "_serve", serve)
    monkeypatch.setattr(slurm_task, "reachable", lambda _: True)
    Head("running", "7.0", "a:1", "t", versions()).announce(tmp_path)
    assert slurm_task.join(tmp_path, lambda: False) == OK
    assert served == ["7.0", "7.1"]


def test_a_worker_without_a_head_goes_back_into_the_queue(tmp_path: Path) -> None:
    Head("running", "7.0", "127.0.0.1:9", "t", versions()).announce(tmp_path)  # killed: nobody listens
    assert slurm_task.join(tmp_path, lambda: False) == INTERRUPTED


def test_a_worker_whose_time_is_up_comes_back(tmp_path: Path) -> None:
    assert slurm_task.join(tmp_path, lambda: True) == INTERRUPTED


def test_ray_that_does_not_start_under_a_head_that_is_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise Co2lError("Ray did not start")

    monkeypatch.setattr(slurm_task, "_serve", fails)
    monkeypatch.setattr(slurm_task, "reachable", lambda _: True)
    Head("running", "7.0", "a:1", "t", versions()).announce(tmp_path)
    with pytest.raises(Co2lError, match="Ray did not start"):
        slurm_task.join(tmp_path, lambda: False)
