"""Doubts about a search: once each, and a missing GPU before anything slow is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import call_here, environment, refusal_of
from spaces import space_of

from co2l.search.space import space_advice as module
from co2l.search.space.space_advice import gpu_advice, space_advice

ROOT = Path(__file__).resolve().parents[3]
DOUBT = "E_t=1 with schedule_by=epoch trains later tasks at eta/1000"
# refused before torch is imported, which alone takes longer than a second
PROGRAM = """
import sys
from co2l.search.space import space_advice as module
module.may_have_gpu = lambda: False
sys.argv = ["co2l.tune", "--space", "search_spaces/seq_cifar10.yaml"]
import co2l.tune
try:
    co2l.tune.main()
finally:
    print(sorted({"torch", "ray", "mlflow"} & set(sys.modules)))
"""

NOBODY = "postgresql://user@127.0.0.1:1/db"  # listens there, so a search ends after its first words


def test_a_doubt_that_many_trials_share_is_said_once() -> None:
    space = space_of({"eta": [0.01, 0.02], "E_t": [1, 2]})
    (line,) = space_advice(space)
    assert line.startswith(DOUBT)


def test_a_gpu_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_have_gpu", lambda: False)
    (line,) = gpu_advice(0.5)
    assert "a trial needs a GPU, and this machine has none" in line
    assert gpu_advice(0) == []
    monkeypatch.setattr(module, "may_have_gpu", lambda: True)
    assert gpu_advice(1) == []


def test_a_search_is_refused_before_anything_slow_is_imported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment(CO2L_ROOT=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "a trial needs a GPU, and this machine has none" in done.stderr
    assert done.stdout == "[]\n"


def test_plan_tune_and_train_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "may_have_gpu", lambda: False)
    (tmp_path / "one.yaml").write_text("benchmark: seq_digits\naxes: {eta: [0.01]}\nresources: {gpus: 1}\n")
    arguments = "--space", "one.yaml", "--set", "E_t=1", "--set", "E_0=1"
    planned = call_here("co2l.tune", *arguments, "--plan", cwd=tmp_path)
    assert planned.returncode == 0
    assert planned.stderr.count("warning: a trial needs a GPU") == 1
    assert planned.stderr.count(f"warning: {DOUBT}") == 1
    assert "a trial needs a GPU" in refusal_of(call_here("co2l.tune", *arguments, cwd=tmp_path))
    trained = call_here("co2l.train", *arguments[2:], "--set", "probe_epochs=1", cwd=tmp_path)
    assert trained.stderr.count(f"warning: {DOUBT}") == 1
    batch = call_here("co2l.tune", *arguments[:2], "--gpus-per-trial", "0", "--storage", NOBODY, cwd=tmp_path)
    assert "warning: 144 validation examples" in batch.stderr
