"""python -m co2l.evaluate, with a real Ray and a real MLflow store: what a search selected, tested and registered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import call, call_here, environment
from mlflow import MlflowClient

from co2l.search.space import load
from co2l.search.study import Record

SPACE = {
    "benchmark": "seq_digits",
    "settings": {"E_0": 3, "E_t": 2, "probe_epochs": 10},
    "axes": {"kappa": [0.1, 0.2], "buffer_size": [20, 40]},
    "selection": {"per": ["buffer_size"]},
}
# What a user would do with the model: the package is only asked for the test images.
LOAD = """
import sys, mlflow, torch
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pytorch.load_model("models:/small@selected")
served = mlflow.pyfunc.load_model("models:/small@selected")
assert "co2l" not in sys.modules
from pathlib import Path
from co2l.data.streams import Split, open_stream
tasks = open_stream("seq_digits", split=Split("evaluation"), seed=0, data=Path("."))
accuracies = []
for t in range(5):
    samples = tasks.held_out(t)
    images = samples.gather(torch.arange(len(samples)))
    found = model(images)
    assert (found - torch.as_tensor(served.predict(images.numpy()))).abs().max() < 1e-6
    accuracies.append(int((found.argmax(1) == samples.labels).sum()) * (100 / len(samples)))
print(sum(accuracies) / 5)
"""


def test_from_search_to_registered_model(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SPACE))
    (tmp_path / "runs").mkdir()
    begun = Record.open(f"sqlite:///{tmp_path}/runs/study.db", "small", load(tmp_path / "small.yaml"))
    with begun.lease.beating():
        pass  # and left again
    early = call("co2l.evaluate", "--study", "small", cwd=tmp_path)
    assert (early.returncode, early.stderr.count("\n")) == (2, 1)
    assert "study 'small': is not finished: 4 are left to run" in early.stderr
    selected = call("co2l.tune", "--space", "small.yaml", "--json", cwd=tmp_path)
    for _ in range(2):  # the second time it is answered from the record
        done = call("co2l.evaluate", "--study", "small", "--seeds", "2", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    chosen = {each["settings"]["buffer_size"]: each["settings"] for each in json.loads(selected.stdout)["selected"]}
    tested = json.loads(done.stdout)["tested"]
    assert [row["values"] for row in tested] == [{"variant": "buffer_size=20"}, {"variant": "buffer_size=40"}]
    assert [row["seeds"] for row in tested] == [[0, 1], [0, 1]]

    uri = f"sqlite:///{tmp_path}/runs/mlflow.db"
    client = MlflowClient(uri)
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
    (parent,) = [run for run in runs if run.data.tags.get("co2l.kind") == "evaluation"]
    seeds = [run for run in runs if run.data.tags.get("co2l.kind") == "seed"]
    assert len(seeds) == 4
    assert not any(name.startswith("val/") for run in seeds for name in run.data.metrics)
    for row in tested:
        size = row["values"]["variant"].removeprefix("buffer_size=")
        ours = [run for run in seeds if run.data.params["buffer_size"] == size]
        assert {run.data.params["kappa"] for run in ours} == {str(chosen[int(size)]["kappa"])}
        assert {run.data.metrics["test/class_il"] for run in ours} == set(row["accuracies"]["class_il"])
        mean = parent.data.metrics[f"buffer_size_{size}/test/class_il/mean"]
        assert mean == pytest.approx(sum(row["accuracies"]["class_il"]) / 2)

    versions = client.search_model_versions("name='small'")
    assert len(versions) == 2  # one of each buffer size, and none twice
    first = client.get_run(client.get_model_version_by_alias("small", "selected").run_id)
    assert (first.data.params["buffer_size"], first.data.params["seed"]) == ("20", "0")
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, uri], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert loaded.returncode == 0, loaded.stderr
    assert float(loaded.stdout) == first.data.metrics["test/class_il"]

    for arguments, message in (
        (["--study", "smal"], "unknown study 'smal'; did you mean 'small'?"),
        (["--study", "small.test"], "is an evaluation and selects nothing"),
        (["--study", "small", "--set", "tau=0.2"], "give this one its own name with --name NEW"),
    ):
        refused = call_here("co2l.evaluate", *arguments, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert message in refused.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("a: [", "is neither YAML nor JSON"),
        ("method: co2l", "benchmark: field required"),
        ("benchmark: seq_digits\nsettings: {kapa: 1}", "unknown setting 'kapa'"),
        ("[{benchmark: seq_digits}, {benchmark: r_digits}]", "mixed configurations"),
    ],
)
def test_a_bad_configuration_is_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "chosen.yaml").write_text(content)
    done = call_here("co2l.evaluate", "--config", "chosen.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("co2l: chosen.yaml")
    assert message in done.stderr


def test_all_but_an_evaluation_runs_without_test_data(tmp_path: Path, own_data: Path) -> None:
    (own_data / "cifar-10-batches-py" / "test_batch").unlink()
    settings = {"width": 16, "E_0": 1, "E_t": 1, "batch_size": 8, "probe_epochs": 1, "buffer_size": 10}
    space = {"benchmark": "seq_cifar10", "settings": settings, "axes": {"kappa": [0.1]}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**space, "resources": {"cpus": 1}}))
    data = ["--data", str(own_data)]
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    for command in (
        ["co2l.train", "--benchmark", "seq_cifar10", *changes],
        ["co2l.tune", "--space", "tiny.yaml", "--plan", "--probe"],
        ["co2l.tune", "--space", "tiny.yaml"],
    ):
        done = call(*command, *data, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    planned = call_here("co2l.evaluate", "--space", "tiny.yaml", "--plan", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    refused = call("co2l.evaluate", "--study", "tiny", *data, cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "test_batch" in refused.stderr
