"""The command: files, MLflow, errors as one line, and the page in a real browser without a network."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import browser
import pytest
import sample_studies
from commands import call_here


def call(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CO2L_DATA", "nowhere")  # a report opens no dataset
        return call_here("co2l.report", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs`, and a report on them."""
    folder = tmp_path_factory.mktemp("work")
    sample_studies.fill(folder / "runs")
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


@pytest.mark.e2e
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


def in_sight(opened: Any, element: Any) -> bool:
    """Whether all of an element lies within the window, and nothing cuts it off or covers it."""
    return bool(
        opened.execute_script(
            """
            const [element] = arguments, box = element.getBoundingClientRect();
            if (!box.width || box.left < 0 || box.right > innerWidth) return false;
            if (box.top < 0 || box.bottom > innerHeight) return false;
            const frame = element.closest(".table")?.getBoundingClientRect();
            if (frame && (box.left < frame.left - 1 || box.right > frame.right + 1)) return false;
            const top = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
            return element.contains(top) || (top !== null && top.contains(element));
            """,
            element,
        )
    )


@pytest.mark.e2e
@pytest.mark.parametrize("width", [1400, 400])
def test_a_number_is_in_sight_beside_the_one_it_is_compared_with(folder: Path, tmp_path: Path, width: int) -> None:
    with browser.chromium(tmp_path / "profile", width=width) as opened:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)  # a window has at least 500 px
        opened.get((folder / "runs" / "report" / "report.html").as_uri())
        opened.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
        assert opened.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
        for table in ("table_1", "table_2", "table_3"):
            row = opened.find_element("xpath", f"//*[@id='{table}']//tbody/tr[td[contains(@class, 'strong')]][1]")
            opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
            name, ours, theirs = row.find_elements("css selector", "td")[1:4]
            assert "Seq-CIFAR-10, buffer 200" in theirs.text.replace("\n", " "), "what stands beside a proxy"
            for each in (name, ours, theirs):
                assert in_sight(opened, each), (table, each.text)
            if width == 400:  # the row's name stays where the other scenario is compared
                opened.execute_script("arguments[0].closest('.table').scrollLeft = 1000", row)
                assert in_sight(opened, name)
                assert in_sight(opened, row.find_elements("css selector", "td")[-1])
                notes = opened.find_element("css selector", f"#{table} .notes li")
                assert notes.rect["x"] >= 0, "only the numbers move"
        for figure in opened.find_elements("css selector", "figure svg"):
            opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
            assert figure.rect["x"] >= 0
            assert figure.rect["x"] + figure.rect["width"] <= width
        opened.execute_script("document.getElementById('table_2').scrollIntoView()")
        browser.shoot(opened, f"report-{width}", tmp_path)


def test_two_configurations_are_compared(folder: Path) -> None:
    one, two = (f"ird_alternatives:distillation={name}" for name in ("ird", "seed"))
    done = call("--compare", one, two, "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    class_il = json.loads(done.stdout)["compared"][0]
    assert class_il["difference"]["mean"] == pytest.approx(11.0)


def test_protocols_have_a_report_of_their_own(folder: Path) -> None:
    done = call("--protocols", "--study", "seq_digits", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["report"] == str(folder / "runs" / "protocols" / "report.html")
    assert [(each["protocol"], each["group"]) for each in said["results"]] == [
        ("end", "buffer_size=50"),
        ("end", "buffer_size=100"),
    ]
    text = (folder / "runs" / "protocols" / "report.md").read_text(encoding="utf-8")
    assert "## seq_digits, buffer_size=50" in text
    assert "Made by `python -m co2l.report --protocols --study seq_digits --root runs`" in text
    assert (folder / "runs" / "report" / "report.html").exists(), "the other report stays"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--protocols", "--study", "seq_digit"], "unknown study 'seq_digit'; did you mean 'seq_digits'?"),
        (["--protocols", "--root", "elsewhere"], "there are no studies"),
        (["--protocols", "--compare", "a", "b"], "--compare and --protocols are two reports"),
        (["--study", "seq_digit"], "unknown study 'seq_digit'; did you mean 'seq_digits'?"),
        (["--root", "elsewhere"], "there are no studies"),
        (["--compare", "a", "b", "--study", "c"], "--compare names its own studies"),
    ],
)
def test_a_wrong_argument_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    done = call(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("co2l: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "elsewhere").exists()
