"""Searches submitted to a cluster, with a fake in the role of Ray's client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from co2l.cluster import jobs
from co2l.errors import Co2lError
from co2l.imports import Import


@dataclass
class Status:
    value: str

    def is_terminal(self) -> bool:
        return self.value in ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass
class Client:
    """Keeps what is submitted; `lines` is what the search prints."""

    statuses: dict[str, str] = field(default_factory=dict)
    submitted: list[dict[str, Any]] = field(default_factory=list)
    files: list[dict[str, str]] = field(default_factory=list)
    lines: tuple[str, ...] = ()
    stopped: list[str] = field(default_factory=list)

    def submit_job(self, **job: Any) -> str:
        folder = Path(job["runtime_env"]["working_dir"])
        self.files.append({path.name: path.read_text() for path in folder.iterdir()})
        self.submitted.append(job)
        self.statuses[job["submission_id"]] = "RUNNING"
        return str(job["submission_id"])

    def list_jobs(self) -> list[Any]:
        listed = [
            SimpleNamespace(
                submission_id=job["submission_id"],
                metadata=job["metadata"],
                status=Status(self.statuses[job["submission_id"]]),
                start_time=i,
            )
            for i, job in enumerate(self.submitted)
        ]
        return [SimpleNamespace(submission_id="raysubmit_1", metadata=None, status=Status("RUNNING")), *listed[::-1]]

    def get_job_status(self, job: str) -> Status:
        return Status(self.statuses[job])

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        for line in self.lines:
            yield f"{job}: {line}\n"
        self.statuses[job] = "SUCCEEDED"

    def stop_job(self, job: str) -> bool:
        self.stopped.append(job)
        return True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()

    @contextmanager
    def connected(address: str) -> Iterator[Client]:
        assert address == "http://cluster"
        yield made

    monkeypatch.setattr(jobs, "_client", connected)
    return made


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "my space.yaml"
    path.write_text("benchmark: seq_digits\n")
    return path


def test_the_space_and_the_arguments_are_all_that_leaves(client: Client, space: Path) -> None:
    assert jobs.submit("http://cluster", "mine", space, ["--set", "eta=[0.1, 0.2]"]) == "mine-1"
    (job,) = client.submitted
    assert job["entrypoint"] == (
        "exec python -m co2l.tune --space 'my space.yaml' --study mine --address auto --set 'eta=[0.1, 0.2]'"
    )
    assert client.files == [{"my space.yaml": "benchmark: seq_digits\n"}]
    assert job["metadata"] == {"co2l.study": "mine"}


def test_imports_are_sent_as_source_and_named_by_flags(client: Client, tmp_path: Path) -> None:
    space = tmp_path / "mine.yaml"
    space.write_text("benchmark: stripes\nimports: [../elsewhere/own.py]\n")
    imports = [Import("own", {"own.py": "x = 1\n"}, "/elsewhere/own.py")]
    jobs.submit("http://cluster", "mine", space, ["--quiet"], imports)
    (job,) = client.submitted
    assert job["entrypoint"].endswith("--address auto --import own --quiet")
    assert client.files == [{"mine.yaml": "benchmark: stripes\n", "own.py": "x = 1\n"}]


def test_a_study_runs_once_at_a_time_and_continues_afterwards(client: Client, space: Path) -> None:
    jobs.submit("http://cluster", "mine", space, [])
    with pytest.raises(Co2lError, match=r"study 'mine' is already running; .*--follow mine"):
        jobs.submit("http://cluster", "mine", space, [])
    assert jobs.submit("http://cluster", "other", space, []) == "other-1"
    client.statuses["mine-1"] = "STOPPED"
    assert jobs.submit("http://cluster", "mine", space, []) == "mine-2"


def test_the_latest_job_is_followed_to_its_end(client: Client, space: Path) -> None:
    for _ in range(2):
        jobs.submit("http://cluster", "mine", space, [])
        client.statuses[client.submitted[-1]["submission_id"]] = "FAILED"
    client.lines, shown = ("1/2 trials done", "2/2 trials done"), list[str]()
    assert jobs.follow("http://cluster", "mine", shown.append) == "succeeded"
    assert shown == ["mine-2: 1/2 trials done\n", "mine-2: 2/2 trials done\n"]


@pytest.mark.parametrize(("status", "stopped"), [("RUNNING", True), ("PENDING", True), ("SUCCEEDED", False)])
def test_only_what_runs_is_stopped(client: Client, space: Path, status: str, stopped: bool) -> None:
    jobs.submit("http://cluster", "mine", space, [])
    client.statuses["mine-1"] = status
    assert jobs.stop("http://cluster", "mine") is stopped
    assert client.stopped == ["mine-1"] * stopped


def test_an_unknown_study_is_answered_with_the_known_ones(client: Client, space: Path) -> None:
    with pytest.raises(Co2lError, match="no study 'mine'"):
        jobs.stop("http://cluster", "mine")
    jobs.submit("http://cluster", "a", space, [])
    jobs.submit("http://cluster", "b", space, [])
    with pytest.raises(Co2lError, match="a, b"):
        jobs.follow("http://cluster", "mine", print)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Failed to connect to Ray at address", "no Ray cluster answers"),
        ("Authentication required: no token", "token"),
        ("Authentication failed", "another token"),
        ("out of cheese\nand more", "(out of cheese)"),
        ("", "(no reason given)"),
    ],
)
def test_a_refusal_is_one_line(reason: str, said: str) -> None:
    line = str(jobs._refusal("http://cluster", reason))
    assert said in line
    assert "\n" not in line


def test_an_address_that_is_not_the_job_api_s() -> None:
    with pytest.raises(Co2lError, match="cluster:10001"):
        jobs.stop("cluster:10001", "mine")
