"""python -m co2l.cluster check cluster/slurm.sh, with Slurm's answers written down (tests/e2e asks a real one)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm

from co2l.cluster import slurm_check
from co2l.cluster.check import Finding
from co2l.cluster.meeting import versions
from co2l.cluster.slurm_check import Trial, findings
from co2l.cluster.slurm_script import SHIPPED, with_options

SINFO = "cpu|2-00:00:00|(null)|64|10\ngpu|1-00:00:00|gpu:a100:4(S:0-1)|32+|3\n"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    for name in ("CO2L_STORAGE", "CO2L_TRACKING_URI", "CO2L_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CO2L_ROOT", str(tmp_path / "runs"))
    made = FakeSlurm(tmp_path, monkeypatch)
    made.answer("sinfo", SINFO)
    made.answer("sbatch", err="sbatch: Job 7 to start at 2026-11-18T05:02:27 using 8 processors on nodes n1\n")
    made.answer("srun", answers(n1={}, n2={}))
    return made


def answers(**nodes: dict[str, object]) -> str:
    usual = {"versions": versions(), "sees": True, "writes": True}
    return "".join(json.dumps({"node": name, **usual, **changes}) + "\n" for name, changes in nodes.items())


def found(tmp_path: Path, trial: Trial = Trial(2, 1, 500), *, offline: bool = False, **changes: str) -> list[Finding]:  # noqa: B008 (frozen)
    script = tmp_path / "slurm.sh"
    given = {name.replace("_", "-"): value for name, value in changes.items()}
    script.write_text(with_options(SHIPPED.read_text(), {"partition": "gpu", **given}))
    return list(findings(script, None, trial, offline=offline))


def wrong(found: list[Finding]) -> list[str]:
    return [each.text for each in found if each.state == "wrong"]


def text_of(found: list[Finding], what: str) -> str:
    (text,) = [each.text for each in found if each.what == what]
    return text


def test_all_is_right(fake: FakeSlurm, tmp_path: Path) -> None:
    seen = found(tmp_path)
    assert wrong(seen) == []
    assert {each.state for each in seen} == {"ok"}
    assert text_of(seen, "resources") == "a trial of 2 CPUs and 1 GPUs: 1 at once on each of 1 nodes"
    assert text_of(seen, "partition") == "gpu has nodes of 32 CPUs and 4 GPUs"
    assert "(500 epochs) may take several starts" in text_of(seen, "time")
    assert text_of(seen, "sbatch").startswith("Job 7 to start at ")
    (call,) = fake.calls("srun")
    assert "--partition=gpu --nodes=2" in call  # one more than it asks for: it may continue on another
    assert not list((tmp_path / "runs" / "store").iterdir())


def test_values_that_are_not_set(fake: FakeSlurm) -> None:
    seen = list(findings(SHIPPED, None, Trial(), offline=True))
    assert wrong(seen) == ["not set: partition; replace CHANGE-ME with your own values"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"partition": "gpus"}, "there is no partition 'gpus'; there are: cpu, gpu"),
        ({"gpus_per_node": "8"}, "8 GPUs per node, and the nodes of gpu have 4 at most"),
        ({"gpus_per_node": "a100:8"}, "8 GPUs per node, and the nodes of gpu have 4 at most"),
        ({"cpus_per_task": "64"}, "64 CPUs per node, and the nodes of gpu have 32 at most"),
        ({"nodes": "4"}, "4 nodes, and gpu has 3"),
        ({"time": "2-00:00:00"}, "2-00:00:00, and the limit of gpu is 24 h"),
    ],
)
def test_what_the_partition_does_not_have(
    changes: dict[str, str], reason: str, fake: FakeSlurm, tmp_path: Path
) -> None:
    assert wrong(found(tmp_path, **changes)) == [reason]
    assert fake.calls("srun") == []


def test_a_time_limit_shorter_than_a_stage_can_save(fake: FakeSlurm, tmp_path: Path) -> None:
    (reason,) = wrong(found(tmp_path, time="4"))
    assert reason.startswith("4 is shorter than a stage can save")
    assert reason.endswith("give at least 5 minutes")
    assert wrong(found(tmp_path, time="5")) == []


def test_a_trial_that_does_not_fit(fake: FakeSlurm, tmp_path: Path) -> None:
    (reason,) = wrong(found(tmp_path, Trial(2, 2)))
    assert reason == "a trial of 2 CPUs and 2 GPUs does not fit a node's share of 8 CPUs and 1 GPUs"


@pytest.mark.parametrize(("name", "value"), [("signal", None), ("signal", "TERM@120"), ("requeue", None)])
def test_a_job_that_could_not_continue(name: str, value: str | None, tmp_path: Path) -> None:
    script = tmp_path / "slurm.sh"
    script.write_text(with_options(SHIPPED.read_text(), {"partition": "gpu", name: value}))
    seen = list(findings(script, None, Trial(), offline=True))
    assert [each.what for each in seen if each.state == "wrong"] == ["signal"]


def test_a_store_only_one_node_sees_and_other_versions(fake: FakeSlurm, tmp_path: Path) -> None:
    old = "co2l 0.1.0, Ray 2.55.0"
    fake.answer("srun", answers(n1={}, n2={"sees": False}, n3={"versions": old}, n4={"writes": False}))
    store = tmp_path / "runs" / "store"
    assert wrong(found(tmp_path)) == [
        f"n2 does not see {store}; use a folder that all nodes share",
        f"n3 has {old}, this machine has {versions()}; they must match",
        f"n4 cannot write to {store}",
    ]


def test_nodes_that_are_busy_are_no_fault(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.answer("srun", err="srun: error: Unable to allocate resources: Immediate execution impossible\n", code=1)
    seen = found(tmp_path)
    assert wrong(seen) == []
    assert "Immediate execution impossible" in text_of(seen, "nodes")


def test_slurm_s_own_refusal(fake: FakeSlurm, tmp_path: Path) -> None:
    fake.answer("sbatch", err="sbatch: error: Invalid account or account/partition combination\n", code=1)
    assert wrong(found(tmp_path)) == ["Slurm refuses it (Invalid account or account/partition combination)"]


def test_where_the_databases_will_be(fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_check, "_file_system", lambda _: "nfs4")
    kept = f"on the disk of the driver's node, copied to the root every 30 s ({tmp_path}/runs/search is on nfs4, "
    seen = found(tmp_path, offline=True)
    assert text_of(seen, "record") == text_of(seen, "tracking") == f"{kept}where SQLite is not safe)"
    monkeypatch.setenv("CO2L_STORAGE", "postgresql://co2l:secret@db/co2l")
    assert "in the server that CO2L_STORAGE names" in text_of(found(tmp_path, offline=True), "record")
    assert not [each for each in found(tmp_path, offline=True) if "secret" in each.text]
    monkeypatch.setenv("CO2L_TRACKING_URI", "sqlite:////nfs/mlflow.db")
    (reason,) = wrong(found(tmp_path, offline=True))
    assert reason.startswith("CO2L_TRACKING_URI is an SQLite file")


def test_a_machine_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [each.what for each in found(tmp_path) if each.state == "unknown"] == ["slurm"]


def test_what_a_node_says(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    slurm_check.look(tmp_path / "seen")
    (tmp_path / "seen").touch()
    slurm_check.look(tmp_path / "seen")
    slurm_check.look(tmp_path / "gone" / "seen")
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["node"], each["sees"], each["writes"]) for each in told] == [
        ("n7", False, True),
        ("n7", True, True),
        ("n7", False, False),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]
