"""A method and a benchmark of one's own, outside the repository, through every command: as a file and as a package."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call, call_here, environment, refusal_of
from mlflow_server import file_uri, wait_for
from own_plugins import write_file, write_package
from searches import scores

from co2l import plugins
from co2l.data.benchmarks import BENCHMARKS
from co2l.imports import active, drop
from co2l.learning.methods import METHODS

PATIENCE = 400.0  # seconds, on a machine with much else to do
SPACE: dict[str, Any] = {
    "benchmark": "stripes",
    "method": "weighted",
    "settings": {"epochs": 3, "buffer_size": 20},
    "axes": {"weight": [0.5, 1.0]},
}


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    for each in active():
        drop(each.top)
    plugins.installed.cache_clear()
    for registry, name in ((METHODS, "weighted"), (BENCHMARKS, "stripes")):
        registry.forget(name)


def write_space(folder: Path, **keys: Any) -> None:
    (folder / "mine.yaml").write_text(yaml.safe_dump({**SPACE, **keys}, sort_keys=False))
    (folder / "runs").mkdir(exist_ok=True)
    file_uri(folder / "runs")


def commanded(folder: Path, command: str, *arguments: str) -> str:
    done = call_here(f"co2l.{command}", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_weight(root: Path) -> list[tuple[float, str]]:
    """Score and weights of every trial, which do not depend on how the code was found."""
    return sorted((result["score"], result["weights"]) for result in scores(root).values())


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, shared_ray: None) -> Path:
    """A folder with a space that imports a file, searched."""
    folder = tmp_path_factory.mktemp("imported")
    write_file(folder)
    write_space(folder, imports=["own.py"])
    commanded(folder, "tune", "--space", "mine.yaml")
    return folder


def test_a_file_is_trained_searched_evaluated_and_reported(imported: Path) -> None:
    given = ["--import", "own.py"]
    settings = ["--set", "epochs=3", "--set", "buffer_size=20", "--set", "weight=0.5"]
    trained = commanded(
        imported, "train", *given, "--benchmark", "stripes", "--method", "weighted", *settings, "--json"
    )
    alone = json.loads(trained)
    found = scores(imported / "runs")
    assert alone["result"]["weights"] == found[alone["key"]]["weights"]
    commanded(imported, "evaluate", *given, "--study", "mine", "--seeds", "2")
    commanded(imported, "report", *given)
    report = (imported / "runs" / "report" / "report.md").read_text()
    assert "weighted (not in the paper)" in report
    assert "Table 1 on `stripes`" in report
    assert "failed (" not in report


def test_without_the_import_everything_says_what_is_missing(imported: Path) -> None:
    line = refusal_of(call_here("co2l.evaluate", "--study", "mine", cwd=imported))
    assert "unknown benchmark 'stripes'" in line
    assert "it needs the plug-in own " in line
    commanded(imported, "report")
    assert "unknown benchmark 'stripes'" in (imported / "runs" / "report" / "report.md").read_text()


def test_changed_source_is_another_study(imported: Path) -> None:
    before = (imported / "own.py").read_text()
    try:
        (imported / "own.py").write_text(before.replace("255", "254"))
        line = refusal_of(call_here("co2l.tune", "--space", "mine.yaml", cwd=imported))
        assert "was started with another space (plugins: " in line
    finally:
        (imported / "own.py").write_text(before)
    again = json.loads(commanded(imported, "tune", "--space", "mine.yaml", "--json"))
    assert (again["trials_left"], again["epochs_trained"]) == (0, 12)


def test_a_worker_without_the_package_names_it_once(
    tmp_path: Path, shared_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site")))  # here, but not in Ray's processes
    plugins.installed.cache_clear()
    write_space(tmp_path)
    done = call_here("co2l.tune", "--space", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "their-plugins" in line]
    assert "the package their-plugins 1.0 is not installed there" in line
    assert "install the same co2l, with the same plug-ins, on every node" in line


def test_a_package_is_searched_and_continued_after_a_kill(tmp_path: Path, imported: Path) -> None:
    """In processes of its own that find it where packages are installed; the same bits as the file's."""
    site = write_package(tmp_path / "site")
    write_space(tmp_path)
    found = {"PYTHONPATH": str(site)}
    words = [sys.executable, "-m", "co2l.tune", "--space", "mine.yaml", "--save-every", "0.05", "--max-concurrent", "1"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(words, cwd=tmp_path, env=environment(**found), stdout=log, stderr=log)
        wait_for(lambda: process.poll() is not None or bool(list((tmp_path / "runs").glob("store/*/*"))), PATIENCE)
        assert process.poll() is None, (tmp_path / "log").read_text()
        process.send_signal(signal.SIGKILL)
        process.wait()
    time.sleep(1)
    done = call("co2l.tune", "--space", "mine.yaml", cwd=tmp_path, **found)
    assert done.returncode == 0, done.stderr
    found = by_weight(tmp_path / "runs")
    assert len(found) == 2
    assert set(found) <= set(by_weight(imported / "runs"))  # which holds its evaluation too
    assert not scores(tmp_path / "runs").keys() & scores(imported / "runs").keys()
