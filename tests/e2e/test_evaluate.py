"""python -m co2l.evaluate: test accuracy of what train chose, over seeds, on the full training set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import SHORT, call


def test_from_train_to_test_accuracy(tmp_path: Path) -> None:
    assert call("co2l.train", *SHORT, cwd=tmp_path).returncode == 0
    (chosen,) = (tmp_path / "runs" / "results").glob("*.json")
    done = call("co2l.evaluate", "--config", str(chosen), "--seeds", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    documents = json.loads(done.stdout)
    assert [document["config"]["seed"] for document in documents] == [0, 1]
    assert all(document["config"]["split"]["kind"] == "evaluation" for document in documents)
    assert {d["config"]["settings"]["E_0"] for d in documents} == {4}
    again = call("co2l.evaluate", "--config", str(chosen), "--seeds", "2", cwd=tmp_path)
    assert again.stderr.count("from the store") == 10
    assert "Class-IL" in again.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("a: [", "is neither YAML nor JSON"),
        ("method: co2l", "benchmark: field required"),
        ("benchmark: seq_digits\nsettings: {kapa: 1}", "unknown setting 'kapa'"),
    ],
)
def test_a_bad_configuration_is_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "chosen.yaml").write_text(content)
    done = call("co2l.evaluate", "--config", "chosen.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("co2l: chosen.yaml")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
