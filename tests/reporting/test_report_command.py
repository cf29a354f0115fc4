"""The command as a process: files, MLflow, errors as one line, and the page in a real browser without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import archives
import browser
import pytest


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    settings = {"OMP_NUM_THREADS": "1", "CO2L_DATA": "nowhere"}  # a report opens no dataset
    return subprocess.run(
        [sys.executable, "-m", "co2l.report", *arguments],
        cwd=cwd,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs`, and a report on them."""
    folder = tmp_path_factory.mktemp("work")
    archives.fill(folder / "runs")
    done = call("--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["report"] == str(folder / "runs" / "report" / "report.html")
    assert said["logged"]
    return folder


def test_the_report_is_an_artifact_too(folder: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder}/runs/mlflow.db")
    experiment = client.get_experiment_by_name("co2l/reports")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.tags["co2l.report"] == "all studies"
    assert "ird_power.test" in run.data.tags["co2l.studies"]
    assert {each.path for each in client.list_artifacts(run.info.run_id)} == {"report.html", "report.md", "figures"}


def test_a_browser_shows_the_report_without_a_network(folder: Path, tmp_path: Path) -> None:
    page = folder / "runs" / "report" / "report.html"
    with browser.chromium(tmp_path / "profile") as opened:
        opened.get(page.as_uri())
        assert opened.get_log("browser") == []  # no error, no warning
        assert browser.requested(opened) == [page.as_uri()]
        assert opened.title == "Co²L: all studies"
        titles = [each.text for each in opened.find_elements("css selector", "h2")]
        assert "Table 2 · Ablation of IRD" in titles
        link = next(each for each in opened.find_elements("css selector", "nav a") if "Table 6" in each.text)
        link.click()
        assert opened.current_url.endswith("#table_6")
        wide = opened.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0  # nothing sticks out
        for figure in opened.find_elements("css selector", "figure svg"):
            assert figure.size["width"] > 100
        browser.shoot(opened, "report", tmp_path)


def test_two_configurations_are_compared(folder: Path) -> None:
    one, two = (f"ird_alternatives:distillation={name}" for name in ("ird", "seed"))
    done = call("--compare", one, two, "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    class_il = json.loads(done.stdout)["compared"][0]
    assert class_il["difference"]["mean"] == pytest.approx(11.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--study", "seq_digit"], "unknown study 'seq_digit'; did you mean 'seq_digits'?"),
        (["--root", "elsewhere"], "there are no studies"),
        (["--compare", "a", "b", "--study", "c"], "--compare names its studies itself"),
    ],
)
def test_a_wrong_argument_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    done = call(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("co2l: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "elsewhere").exists()
