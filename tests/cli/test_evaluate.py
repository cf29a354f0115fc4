"""python -m co2l.evaluate: one line for a configuration or a study that cannot be evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from commands import call_here, refusal_of

from co2l.search.record.study import StudyRecord
from co2l.search.space.space import load


def refusal(*arguments: str, cwd: Path) -> str:
    return refusal_of(call_here("co2l.evaluate", *arguments, cwd=cwd))


def test_a_study_that_is_not_finished(tmp_path: Path) -> None:
    space = {"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2], "buffer_size": [20, 40]}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(space))
    (tmp_path / "runs").mkdir()
    StudyRecord.open(f"sqlite:///{tmp_path}/runs/study.db", "small", load(tmp_path / "small.yaml"))
    assert "study 'small': is not finished: 4 are left to run" in refusal("--study", "small", cwd=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("a: [", "not valid YAML in line 1"),
        ("method: co2l", "benchmark: field required"),
        ("benchmark: seq_digits\nsettings: {kapa: 1}", "unknown setting 'kapa'"),
        ("[{benchmark: seq_digits}, {benchmark: r_digits}]", "mixed configurations"),
    ],
)
def test_a_bad_configuration_is_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "chosen.yaml").write_text(content)
    line = refusal("--config", "chosen.yaml", cwd=tmp_path)
    assert line.startswith("co2l: chosen.yaml")
    assert message in line
