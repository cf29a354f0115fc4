"""python -m co2l.evaluate, with a real Ray and a real MLflow store: what a search selected, tested and registered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import call_here, environment, refusal_of
from mlflow import MlflowClient
from searches import Undisturbed, copy_database, scores

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
    examples = tasks.held_out(t)
    images = examples.images
    found = model(images)
    assert (found - torch.as_tensor(served.predict(images.numpy()))).abs().max() < 1e-6
    accuracies.append(int((found.argmax(1) == examples.labels).sum()) * (100 / len(examples)))
print(sum(accuracies) / 5)
"""


pytestmark = pytest.mark.usefixtures("shared_ray")
SHORTER = ["--set", "E_0=3", "--set", "E_t=2"]


def test_from_search_to_registered_model(tmp_path: Path, undisturbed: Undisturbed) -> None:
    (tmp_path / "runs").mkdir()
    for name in ("study.db", "mlflow.db"):
        copy_database(undisturbed.root / name, tmp_path / "runs" / name)
    for _ in range(2):  # the second time it is answered from the record
        done = call_here("co2l.evaluate", "--study", "small", "--seeds", "2", *SHORTER, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    chosen = {each["settings"]["buffer_size"]: each["settings"] for each in undisturbed.outcome["selected"]}
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
        assert {run.data.metrics["test/class_il"] for run in ours} == {
            round(a, 2) for a in row["accuracies"]["class_il"]
        }
        mean = parent.data.metrics[f"buffer_size_{size}/test/class_il/mean"]
        assert mean == pytest.approx(sum(row["accuracies"]["class_il"]) / 2, abs=0.005)

    versions = client.search_model_versions("name='small'")
    assert len(versions) == 2  # one of each buffer size, and none twice
    first = client.get_run(client.get_model_version_by_alias("small", "selected").run_id)
    assert (first.data.params["buffer_size"], first.data.params["seed"]) == ("20", "0")
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, uri], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert loaded.returncode == 0, loaded.stderr
    assert round(float(loaded.stdout), 2) == first.data.metrics["test/class_il"]
    for size in (20, 40):
        version = client.get_model_version_by_alias("small", f"buffer_{size}")
        assert client.get_run(version.run_id).data.params["buffer_size"] == str(size)
        assert f"`buffer_size={size}`" in version.description
    assert json.loads(done.stdout)["model"] == {"name": "small", "aliases": ["selected", "buffer_20", "buffer_40"]}

    for arguments, message in (
        (["--study", "smal"], "unknown study 'smal'; did you mean 'small'?"),
        (["--study", "small.test"], "is an evaluation and selects nothing"),
        (["--study", "small", *SHORTER, "--set", "tau=0.2"], "use --name NEW, which reuses stored stages"),
    ):
        refused = call_here("co2l.evaluate", *arguments, cwd=tmp_path)
        assert message in refusal_of(refused)


def test_all_but_an_evaluation_is_the_same_without_test_data(tmp_path: Path, own_data: Path) -> None:
    settings = {"width": 16, "E_0": 1, "E_t": 1, "batch_size": 8, "probe_epochs": 1, "buffer_size": 10}
    space = {"benchmark": "seq_cifar10", "settings": settings, "axes": {"kappa": [0.1]}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**space, "resources": {"cpus": 1}}))
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    train = ["co2l.train", "--benchmark", "seq_cifar10", *changes, "--set", "kappa=0.1", "--json"]
    data = ["--data", str(own_data)]

    def called(*command: str) -> str:
        done = call_here(*command, *data, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with_test = json.loads(called(*train, "--root", "with"))["result"]
    (own_data / "cifar-10-batches-py" / "test_batch").unlink()
    assert json.loads(called(*train, "--root", "without"))["result"] == with_test
    called("co2l.tune", "--space", "tiny.yaml", "--plan", "--measure")
    called("co2l.tune", "--space", "tiny.yaml")
    ((_, searched),) = scores(tmp_path / "runs").items()
    assert searched["weights"] == with_test["weights"]
    assert searched["final"] == with_test["final"]
    called("co2l.evaluate", "--space", "tiny.yaml", "--plan")
    refused = call_here("co2l.evaluate", "--study", "tiny", *data, cwd=tmp_path)
    assert "test_batch" in refusal_of(refused)
