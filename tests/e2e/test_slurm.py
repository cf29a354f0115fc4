"""A search on a real Slurm: over its time limit, with workers that come and go, beside that of another user.

The controller looks at time limits every thirty seconds, so one search is begun first, and the other tests run
while it waits for two of these moments. It drives workers only, so it does not end before we let one in.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from commands import call_here
from hosts import SYSTEM, wait_for
from ray.core.generated import gcs_service_pb2
from searches import SPACE, TASKS, check_complete, epochs_saved, scores, search_here, write_space
from slurm import Slurm, require, slurm

SCRIPT = Path(__file__).parents[2] / "cluster" / "slurm.sh"
PATIENCE = 400  # seconds for steps that take a few on a quiet machine
STRANGER = "nobody"
LATER = 40  # epochs of each later task, so that a fast machine too is caught in the middle of a trial
SEARCH: dict[str, Any] = {
    "axes": {**SPACE["axes"], "eta": [0.01]},
    "settings": {**SPACE["settings"], "E_t": LATER},
}
TRIALS, PLANNED = 4, 5 + 4 * (TASKS - 1) * LATER
SLURMS_OWN = ("slurmctld", "slurmd", "slurmstepd", "srun")  # munge guards their ports
METHODS = [  # one of each service that Ray has on a port
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.ObjectManagerService/Pull",
    "/ray.rpc.CoreWorkerService/GetCoreWorkerStats",
    "/ray.rpc.ReporterService/GetTraceback",
]


@dataclass(frozen=True)
class Searching:
    """Ours, driven by a job that runs no trials, and a stranger's on two nodes, of which only the second runs any."""

    slurm: Slurm
    folder: Path
    job: str
    worker: str
    theirs: Path
    their_job: str

    @property
    def root(self) -> Path:
        return self.folder / "runs" / "small"

    @property
    def their_root(self) -> Path:
        return self.theirs / "runs" / "small"

    def submit_worker(self) -> str:
        words = [str(self.root / "slurm.sh"), "--join", "--space", "small.yaml"]
        call = ["sbatch", "--parsable", "--nodes=1", "--time=10", "--nodelist=n2", *words]
        return self.slurm.call(*call, folder=self.folder, CO2L_SEARCH_JOB=self.job)

    def restarts(self, job: str = "") -> int:
        return int(self.slurm.field(job or self.job, "Restarts") or 0)

    def limit(self, job: str, minutes: int) -> None:
        assert self.slurm.call("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}") == ""

    def log(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("*.log"))


@pytest.fixture(scope="module")
def on_one_machine(tmp_path_factory: pytest.TempPathFactory, shared_ray: None) -> dict[str, Any]:
    """Every trial's result without Slurm."""
    folder = write_space(tmp_path_factory.mktemp("one-machine"), **SEARCH)
    search_here(folder)
    return scores(folder / "runs")


@pytest.fixture(scope="module")
def searching(on_one_machine: dict[str, Any]) -> Iterator[Searching]:  # which is not to run beside them
    assert len(on_one_machine) == TRIALS
    require()
    with slurm() as made:
        folder, theirs = made.folder / "ours", made.folder / "theirs"
        folder.mkdir(mode=0o700)
        write_space(folder, **SEARCH)
        script = SCRIPT.read_text()
        assert script.count("TERM@120") == 1
        (folder / "slurm.sh").write_text(script.replace("TERM@120", "TERM@20"))  # a job of a minute lasts longer
        submit = ["slurm", "--space", "small.yaml", "--file", "slurm.sh", "--partition", "main", "--nodes", "0"]
        submit += ["--gpus-per-node", "0", "--cpus-per-task", "1", "--time", "1", "--workers", "1"]
        made.call("scontrol", "update", "PartitionName=main", "State=DOWN")  # nothing starts before it is held
        said = made.call(sys.executable, "-m", "co2l.cluster", *submit, "--save-every", "0.1", folder=folder)
        assert said.startswith("submitted: small, job "), said
        job, worker = (word.strip(",") for word in said.splitlines()[0].split() if word.strip(",").isdigit())
        made.call("scontrol", "hold", worker)
        found = Searching(made, folder, job, worker, theirs, submit_theirs(made, theirs))
        for each in (job, worker):
            found.limit(each, 20)  # until we have looked at it
        made.call("scontrol", "update", "PartitionName=main", "State=UP")
        yield found


@pytest.fixture(scope="module")
def saved(searching: Searching) -> dict[str, int]:
    """By trial: the epochs that were saved when the first worker was cancelled. From now on the time limit counts."""
    searching.slurm.call("scontrol", "release", searching.worker)
    wait_for(lambda: trains(searching.folder), PATIENCE)
    searching.slurm.call("scancel", searching.worker)
    wait_for(lambda: searching.slurm.field(searching.worker, "JobState") == "CANCELLED", PATIENCE)
    searching.limit(searching.job, 1)
    return epochs_saved(searching.folder / "runs" / "store", searching.folder / "small.yaml")


def submit_theirs(made: Slurm, folder: Path) -> str:
    """A search that does not end by itself."""
    folder.mkdir(mode=0o700)
    settings = {"E_0": 2, "E_t": 5000, "probe_epochs": 3}
    write_space(folder, axes={"eta": [0.01]}, settings=settings, selection={})
    os.chown(folder, *[int(made.call("id", flag, STRANGER)) for flag in ("-u", "-g")])
    words = ["sbatch", "--parsable", "--partition=main", "--nodes=2", "--gpus-per-node=0", "--cpus-per-task=1"]
    words += ["--job-name=theirs", str(SCRIPT), "--space", "small.yaml", "--save-every", "1", "--driver-only"]
    job = made.call(*words, user=STRANGER, folder=folder, HOME=str(folder))
    assert job.isdigit(), job
    return job


@pytest.mark.timeout(900)
def test_two_users_on_one_node_do_not_see_each_other_s_ray(searching: Searching) -> None:
    wait_for(lambda: (searching.root / "head.json").exists() and trains(searching.theirs), PATIENCE)
    ours, other = running(searching.root), running(searching.their_root)
    nodes, their_nodes = nodes_of(ours["address"], ours["token"]), nodes_of(other["address"], other["token"])
    assert (len(nodes), len(their_nodes)) == (1, 2)
    assert not nodes & their_nodes
    for address, token in ((ours["address"], other["token"]), (other["address"], ours["token"])):
        assert asks_for_token(address, None)
        assert asks_for_token(address, token)
    forbidden = searching.slurm.call("cat", str(searching.root / "head.json"), user=STRANGER)
    assert "Permission denied" in forbidden
    check_ports(searching)


def trains(folder: Path) -> bool:
    """Whether a stage has ended, and the next one is under way."""
    return all(list((folder / "runs" / "store").glob(f"*/*.{ending}")) for ending in ("state", "partial"))


def running(root: Path) -> dict[str, Any]:
    """The head of a search."""
    head: dict[str, Any] = json.loads((root / "head.json").read_text())
    assert head["state"] == "running"
    return head


def ask(address: str, method: str, token: str | None) -> bytes:
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(address) as channel:
        return bytes(channel.unary_unary(method)(b"", metadata=metadata, timeout=60))


def nodes_of(address: str, token: str) -> set[bytes]:
    reply = gcs_service_pb2.GetAllNodeInfoReply.FromString(ask(address, METHODS[0], token))
    return {node.node_id for node in reply.node_info_list}


def asks_for_token(address: str, token: str | None) -> bool:
    """Whether none of Ray's services answers there, and one says why."""
    codes = []
    for method in METHODS:
        with pytest.raises(grpc.RpcError) as refused:
            ask(address, method, token)
        codes.append(refused.value.code())
    assert set(codes) <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}, (address, codes)
    return grpc.StatusCode.UNAUTHENTICATED in codes


def check_ports(searching: Searching) -> None:
    """All that listens on every interface asks for a token; and folders and sockets are closed to others."""
    ours = searching.slurm.processes()
    found = [each for each in psutil.net_connections("tcp") if each.pid in ours and each.status == "LISTEN"]
    open_to_all = [each for each in found if each.laddr.ip in ("::", "0.0.0.0")]
    rays = [each for each in open_to_all if ours[each.pid or 0].name() not in SLURMS_OWN]
    assert len(rays) > 4
    for each in rays:
        assert asks_for_token(f"127.0.0.1:{each.laddr.port}", None)
    folders = {Path(folder) for each in ours.values() if (folder := environment_of(each).get("CO2L_NODE"))}
    assert len(folders) == 3
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    assert {folder.stat().st_uid for folder in folders} == {0, searching.theirs.stat().st_uid}


def environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}


@pytest.mark.timeout(900)  # theirs trains as long as it is there, so it comes before all that takes long
def test_a_search_on_two_nodes_goes_back_into_the_queue_and_leaves_nothing_behind(searching: Searching) -> None:
    wait_for(lambda: trains(searching.theirs), PATIENCE)
    searching.slurm.call("scontrol", "hold", searching.their_job)
    searching.slurm.call("scancel", "--signal=TERM", "--batch", searching.their_job)  # as before a time limit
    wait_for(lambda: searching.restarts(searching.their_job) == 1, PATIENCE)
    log = (searching.theirs / f"theirs-{searching.their_job}.log").read_text()
    assert "back into the queue, to continue" in log
    assert "srun: error" not in log.partition("back into the queue")[0]
    assert "Traceback" not in log
    head = json.loads((searching.their_root / "head.json").read_text())
    assert (head["state"], head["token"]) == ("away", "")
    stranger = searching.theirs.stat().st_uid
    left = [each for each in searching.slurm.processes().values() if each.uids().real == stranger]
    wait_for(lambda: not any(each.is_running() for each in left), PATIENCE)
    searching.slurm.call("scancel", searching.their_job)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("saved")
def test_the_check_asks_slurm_itself(searching: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "PYTHONPATH"):
        monkeypatch.setenv(name, searching.slurm.environment[name])
    monkeypatch.setenv("PATH", SYSTEM)
    assert wrong(searching, {}) == []
    assert wrong(searching, {"=main": "=gpu"}) == ["there is no partition 'gpu'; there are: main"]
    assert wrong(searching, {"gpus-per-node=1": "gpus-per-node=4"}) == [
        "4 GPUs per node, and the nodes of main have 2 at most"
    ]
    (line,) = wrong(searching, {"04:00:00": "2"})
    assert line.startswith("2 is shorter than a stage can save")
    monkeypatch.setenv("CO2L_STORE", f"{searching.slurm.folder}/only-here/store")
    (line,) = wrong(searching, {})
    assert line.startswith("n2 does not see ")


def wrong(searching: Searching, changes: dict[str, str]) -> list[str]:
    """What the check finds wrong with the shipped script, some of whose values are changed."""
    text = SCRIPT.read_text().replace("CHANGE-ME", "main")
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    file = searching.folder / "changed.sh"
    file.write_text(text)
    said = call_here("co2l.cluster.__main__", "check", file, cwd=searching.folder).stdout
    return [line.split(maxsplit=2)[2] for line in said.splitlines() if line.startswith("WRONG")]


@pytest.mark.timeout(900)
def test_a_search_outlives_its_time_limit_and_a_cancelled_worker(
    searching: Searching, saved: dict[str, int], on_one_machine: dict[str, Any]
) -> None:
    wait_for(lambda: searching.restarts() >= 2, PATIENCE)  # without a worker it cannot end before
    searching.limit(searching.job, 20)
    second = searching.submit_worker()
    wait_for(lambda: searching.slurm.field(searching.job, "JobState") in ("COMPLETED", "FAILED"), PATIENCE)
    assert searching.slurm.field(searching.job, "ExitCode") == "0:0", searching.log()
    wait_for(lambda: searching.slurm.field(second, "JobState") == "COMPLETED", PATIENCE)  # it saw that nothing is left

    assert scores(searching.root) == on_one_machine
    check_complete(searching.root, trials=TRIALS)
    there = attempts(searching.root / "study.db")
    lost = {trial: each["furthest_epoch"] for trial, each in there.items() if "machine was lost" in each["reason"]}
    again = sum(max(0, furthest - saved[trial]) for trial, furthest in lost.items())
    unheard = sum(max(0, saved[trial] - furthest) for trial, furthest in lost.items())  # saved, and lost on the way
    trained = sum(each["cost"]["epochs_trained"] for each in there.values())
    assert PLANNED - unheard <= trained <= PLANNED + again
    assert str(searching.root) in searching.log()
    assert "Traceback" not in searching.log()
    assert not (searching.root / "driver.json").exists()


def attempts(database: Path) -> dict[str, dict[str, Any]]:
    """By trial: what its attempts came to."""
    query = "select trial_id, key, value_json from trial_user_attributes where key in ('trial', 'so_far')"
    trials: dict[int, dict[str, Any]] = {}
    with sqlite3.connect(database) as connection:
        for trial, key, value in connection.execute(query):
            trials.setdefault(trial, {})[key] = json.loads(value)
    return {trial["trial"]: trial["so_far"] for trial in trials.values()}
