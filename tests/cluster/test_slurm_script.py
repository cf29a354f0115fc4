"""The `#SBATCH` lines of a Slurm script, and how a search and its workers are submitted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from fake_slurm import FakeSlurm
from spaces import AXES

from co2l.cluster import slurm_script
from co2l.cluster.slurm_script import SHIPPED, options, seconds, submit, with_options
from co2l.errors import Co2lError


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CO2L_ROOT", raising=False)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"benchmark": "seq_digits", "axes": AXES}))
    return FakeSlurm(tmp_path, monkeypatch)


def test_the_shipped_script_is_a_shell_s() -> None:
    assert subprocess.run(["bash", "-n", str(SHIPPED)], check=False).returncode == 0
    asked = options(SHIPPED.read_text())
    assert asked["signal"] == "B:TERM@120"
    assert asked["requeue"] == ""
    assert asked["open-mode"] == "append"  # else each start would overwrite the log of the last


def test_values_are_changed_added_and_left_to_slurm() -> None:
    lines = [f"#SBATCH --{each}" for each in ("partition=CHANGE-ME", "nodes=1", "gpus-per-node=1", "requeue")]
    text = "\n".join(["#!/bin/bash", *lines, "run", ""])
    assert with_options(text, {}) == text.replace("#SBATCH --partition=CHANGE-ME\n", "")
    changed = with_options(text, {"partition": "gpu", "nodes": "2", "gpus-per-node": "0", "time": "8:00:00"})
    assert options(changed) == {"time": "8:00:00", "partition": "gpu", "nodes": "2", "requeue": ""}
    assert changed.startswith("#!/bin/bash\n")
    assert changed.endswith("\nrun\n")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("02:30:15", 9015),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-12:30:15", 131415),
        ("infinite", float("inf")),
    ],
)
def test_time_limits(text: str, amount: float) -> None:
    assert seconds(text) == amount


def test_a_time_limit_that_is_none() -> None:
    with pytest.raises(Co2lError, match="'soon' is not a time limit"):
        seconds("soon")


def test_a_search_and_its_workers(fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_script, "_check_arguments", lambda *_: None)
    fake.answer("sbatch", "41;cluster\n")
    done = submit(SHIPPED, {"nodes": "2", "time": "30"}, ["--space", "mine.yaml", "--seed", "3"], workers=4)
    assert (done.name, done.search, done.workers) == ("mine", "41", "41")
    script = tmp_path / "runs" / "mine" / "slurm.sh"
    asked = options(script.read_text())
    assert (asked["nodes"], asked["time"], asked.get("partition")) == ("2", "30", None)
    search, workers = fake.calls("sbatch")
    assert search == f"--parsable --job-name=co2l-mine {script} --space mine.yaml --seed 3"
    array = "--parsable --nodes=1 --array=1-4 --dependency=after:41 --job-name=co2l-mine-worker"
    assert workers == f"{array} {script} --join --space mine.yaml --seed 3"


def test_a_job_that_only_drives_has_no_gpu(fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_script, "_check_arguments", lambda *_: None)
    fake.answer("sbatch", "41\n")
    submit(SHIPPED, {"nodes": "0"}, ["--space", "mine.yaml"], workers=2)
    root = tmp_path / "runs" / "mine"
    search, workers = fake.calls("sbatch")
    assert search.endswith(f"{root}/slurm-driver.sh --space mine.yaml --driver-only")
    assert f"{root}/slurm.sh --join" in workers
    assert "gpus-per-node" not in options((root / "slurm-driver.sh").read_text())
    assert options((root / "slurm.sh").read_text())["gpus-per-node"] == "1"


def test_slurm_s_refusal_is_one_line(fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_script, "_check_arguments", lambda *_: None)
    fake.answer("sbatch", err="sbatch: error: invalid partition specified: x\nsbatch: error: more\n", code=1)
    with pytest.raises(Co2lError, match=r"Slurm refuses the job \(.*invalid partition specified: x") as refused:
        submit(SHIPPED, {}, ["--space", "mine.yaml"], workers=0)
    assert "\n" not in str(refused.value)


def test_a_wrong_flag_is_found_before_the_job_waits(fake: FakeSlurm) -> None:
    fake.answer("sbatch", "41\n")
    with pytest.raises(Co2lError, match="--sampels"):
        submit(SHIPPED, {}, ["--space", "mine.yaml", "--sampels", "3"], workers=0)
    assert fake.calls("sbatch") == []


def test_a_script_that_is_not_there(fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_script, "_check_arguments", lambda *_: None)
    with pytest.raises(Co2lError, match="cannot be read"):
        submit(Path("no.sh"), {}, ["--space", "mine.yaml"], workers=0)
