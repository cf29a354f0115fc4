"""A finished search in the MLflow UI, seen by a real browser: its trials, its note, the selected trial's figures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from mlflow_server import Server, empty_database
from searches import tune, write_space

SECONDS = 60  # for a page to show what it loads
# What MLflow 3.17 itself says on every page, whatever is in it.
NOISE = (
    r"/ajax-api/2\.0/mlflow/users/current - .* 404 ",  # it asks who is logged in, also where nobody can be
    r'"AG Grid: since v27\.1, ',  # its table is older than its own table library
)


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the screenshots go: the folder of $CO2L_SCREENSHOTS, or a temporary one."""
    given = os.environ.get("CO2L_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Page:
    """The UI as a user works with it: waits for what must appear, and keeps what the console said."""

    def __init__(self, driver: Any, address: str, shots: Path) -> None:
        self.driver, self.address, self.shots = driver, address, shots
        self.said: list[str] = []

    def open(self, page: str) -> None:
        self.driver.get("about:blank")  # a new page, not another view of the one that is open
        self.driver.get(f"{self.address}/{page}")
        for close in self.driver.find_elements(
            "css selector", "[data-component-id='mlflow.assistant.chat_panel.close']"
        ):
            close.click()

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, SECONDS, ignored_exceptions=[StaleElementReferenceException])
        return waiting.until(lambda _: condition())

    def find(self, xpath: str) -> Any:
        """The first of these elements, once there is one in sight."""
        return self.wait(lambda: next((each for each in self.all(xpath) if each.is_displayed()), None))

    def all(self, xpath: str) -> list[Any]:
        return list(self.driver.find_elements("xpath", xpath))

    def texts(self, css: str) -> list[str]:
        return [each.text for each in self.driver.find_elements("css selector", css)]

    def shoot(self, name: str) -> None:
        path = self.shots / f"{name}.png"
        self.driver.save_screenshot(str(path))
        assert path.stat().st_size > 10_000
        self.said += [f"{line['level']} {line['message']}" for line in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, shots: Path) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("ui")
    with browser.chromium(folder / "profile", width=1500, height=1000) as driver:  # skips before anything is trained
        server = Server(folder, empty_database(folder))
        server.start()
        try:
            write_space(
                folder,
                settings={"E_0": 2, "E_t": 2, "probe_epochs": 3},
                axes={"eta": [0.005, 0.01], "kappa": [0.1], "buffer_size": [20, 50]},
                selection={"per": ["buffer_size"]},
            )
            tune(folder, "--tracking-uri", server.uri)
            yield Page(driver, server.uri, shots)
        finally:
            server.kill()


NAMES = {f"η={eta} κ=0.1 M={size}" for eta in ("0.005", "0.01") for size in (20, 50)}


def test_a_finished_search_in_a_browser(page: Page) -> None:
    page.open("#/experiments/1/runs?workflowType=machine_learning")
    parent = page.find("//a[text()='small']")
    assert not NAMES & set(page.texts(".ag-row a")), "the trials are below their study"
    page.find("//div[contains(@class, 'ag-row')]//button[.//*[local-name()='svg']]").click()
    page.wait(lambda: set(page.texts(".ag-row a")) >= NAMES)
    page.shoot("study-expanded")

    parent = page.find("//a[text()='small']")
    parent.click()
    note = page.find("//*[@data-testid='note-editor-preview-content']")
    assert "co2l on seq_digits: grid over eta, kappa, buffer_size" in note.text
    for more in page.all("//button[@aria-label='Expand description']"):
        more.click()
    heads = [each.text for each in note.find_elements("css selector", "th")]
    assert heads == ["selected", "val/score", "buffer_size"]
    selected = [each.text for each in note.find_elements("css selector", "td a")]
    assert len(selected) == 2
    assert set(selected) <= NAMES
    drawn = note.find_elements("css selector", "img")
    assert len(drawn) == 3
    for image in drawn:
        page.wait(lambda image=image: image.get_property("naturalWidth") > 100)
    page.shoot("study-note")

    table = note.find_element("link text", "All trials by val/score").get_attribute("href")
    trial = note.find_element("css selector", "td a").get_attribute("href")
    page.open(table.partition("/#")[2].join(["#", ""]))
    page.wait(lambda: set(page.texts(".ag-row a")) == NAMES)
    columns = [name for name in page.texts(".ag-header-cell") if "/" in name or name in ("eta", "kappa", "buffer_size")]
    assert columns == ["val/score", "val/class_il", "val/task_il", "eta", "kappa", "buffer_size"]
    scores = [float(text.rstrip("….")) for text in page.texts(".ag-row [col-id='metrics.`val/score`']")]
    assert scores == sorted(scores, reverse=True)
    assert page.texts(".ag-row [col-id='tags.`co2l.selected`']").count("true") == 2
    page.shoot("study-trials")

    page.open(trial.partition("/#")[2].join(["#", ""]))
    page.find(f"//h2[normalize-space()='{selected[0]}'] | //h3[normalize-space()='{selected[0]}']")
    page.find("//*[text()='Model metrics']").click()
    for name in ("supcon", "distill", "class_il", "task_il"):
        chart = page.find(
            f"//*[@title='{name}' or text()='{name}']/ancestor::*[.//*[local-name()='path' and @class='js-line']][1]"
        )
        page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
        lines = chart.find_elements("css selector", "path.js-line")
        assert any(len(re.findall("[ML]", line.get_attribute("d"))) > 1 for line in lines), f"no curve of {name}"
    page.shoot("trial-curves")

    page.find("//*[text()='Artifacts']").click()
    page.find("//*[text()='accuracy_matrix.png']").click()
    figure = page.find("//img[contains(@src, 'accuracy_matrix') or starts-with(@src, 'blob:')]")
    page.wait(lambda: figure.get_property("naturalWidth") > 300)
    page.shoot("trial-matrix")

    said = [line for line in page.said if not any(re.search(noise, line) for noise in NOISE)]
    assert said == [], "the console of the browser"
