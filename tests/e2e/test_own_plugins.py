"""A method and a benchmark of one's own, outside the repository, through every command: as a file and as a package."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call_forked, call_here, refusal_of, start
from mlflow_server import file_uri, wait_for
from own_plugins import SPACE, forget, write_file, write_package
from searches import scores

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 400.0  # seconds, on a machine with much else to do
SELECTED = ["--study", "mine", "--seeds", "1"]


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    forget()


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


def check_report(folder: Path) -> None:
    """What was evaluated has its own row and table."""
    report = (folder / "runs" / "report" / "report.md").read_text()
    assert "weighted (not in the paper)" in report
    assert "Table 1 on `stripes`" in report
    assert "failed (" not in report


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, shared_ray: None) -> Path:
    """A folder with a space that imports a file, searched and evaluated."""
    folder = tmp_path_factory.mktemp("imported")
    write_file(folder)
    write_space(folder, imports=["own.py"])
    commanded(folder, "tune", "--space", "mine.yaml")
    commanded(folder, "evaluate", "--import", "own.py", *SELECTED)
    return folder


def test_a_file_is_trained_searched_evaluated_and_reported(imported: Path) -> None:
    assert len(by_weight(imported / "runs")) == 2 + 1
    given = ["--import", "own.py"]
    settings = ["--set", "epochs=3", "--set", "buffer_size=20", "--set", "weight=0.5"]
    trained = commanded(
        imported, "train", *given, "--benchmark", "stripes", "--method", "weighted", *settings, "--json"
    )
    alone = json.loads(trained)
    found = scores(imported / "runs")
    assert alone["result"]["weights"] == found[alone["key"]]["weights"]
    commanded(imported, "report", *given)
    check_report(imported)


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
    forget()
    write_space(tmp_path)
    done = call_here("co2l.tune", "--space", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "their-plugins" in line]
    assert "the package their-plugins 1.0 is not installed there" in line
    assert "install the same co2l, with the same plug-ins, on every node" in line


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package in `site`, searched by processes that find it as an installed one, one of them killed."""
    folder = tmp_path_factory.mktemp("packaged")
    site = write_package(folder / "site")
    write_space(folder)
    found = {"PYTHONPATH": f"{site}:{REPOSITORY}"}
    search = ["co2l.tune", "--space", "mine.yaml"]
    words = [*search, "--save-every", "0.05", "--max-concurrent", "1"]
    process = start(*words, cwd=folder, **found)
    wait_for(lambda: process.poll() is not None or bool(list((folder / "runs").glob("store/*/*"))), PATIENCE)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(1)
    for command in (search, ["co2l.evaluate", *SELECTED]):
        done = call_forked(*command, cwd=folder, **found)
        assert done.returncode == 0, done.stderr
    return folder


def test_a_package_is_searched_continued_after_a_kill_and_evaluated(packaged: Path, imported: Path) -> None:
    """The same bits as the file's, under keys of its own."""
    assert len(by_weight(packaged / "runs")) == 2 + 1
    assert by_weight(packaged / "runs") == by_weight(imported / "runs")
    assert not scores(packaged / "runs").keys() & scores(imported / "runs").keys()


def test_a_package_is_trained_reported_and_another_once_changed(
    packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(packaged / "site"))
    forget()
    settings = ["--set", "epochs=3", "--set", "buffer_size=20", "--set", "weight=0.5", "--root", "alone", "--json"]
    alone = json.loads(commanded(packaged, "train", "--benchmark", "stripes", "--method", "weighted", *settings))
    assert alone["result"]["weights"] == scores(packaged / "runs")[alone["key"]]["weights"]
    commanded(packaged, "report")
    check_report(packaged)
    again = json.loads(commanded(packaged, "tune", "--space", "mine.yaml", "--json"))
    assert again["trials_left"] == 0
    with (packaged / "site" / "their_plugins" / "stripes.py").open("a") as source:
        source.write("# changed\n")
    forget()
    line = refusal_of(call_here("co2l.tune", "--space", "mine.yaml", cwd=packaged))
    assert "was started with another space (plugins: " in line
