"""A finished search in the MLflow UI, seen by a real browser: its trials, its note, the selected trial's figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from mlflow_server import Server
from searches import tune, write_space

SECONDS = 60  # for a page to show what it loads
# What MLflow 3.17 itself says on every page, whatever is in it.
NOISE = (
    r"/ajax-api/2\.0/mlflow/users/current - .* 404 ",  # it asks who is logged in, also where nobody can be
    r'"AG Grid: since v27\.1, ',  # its table is older than its own table library
    r'"ResizeObserver loop completed with undelivered notifications\."$',  # its charts grow with their page
)


class Page:
    """The UI as a user works with it: waits for what must appear, and keeps what the console said."""

    def __init__(self, driver: Any, address: str, shots: Path) -> None:
        self.driver, self.address, self.shots = driver, address, shots
        self.said: list[str] = []

    def open(self, page: str) -> None:
        self.driver.get("about:blank")  # a new page, not another view of the one that is open
        self.driver.get(f"{self.address}/{page}")

    def of(self, address: str) -> str:
        """The page of a link."""
        assert address.startswith(f"{self.address}/#/"), address
        return address.removeprefix(f"{self.address}/")

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
        for each in self.all("//*[@data-component-id='mlflow.assistant.chat_panel.close']"):
            each.click()  # it takes a quarter of the page
        browser.shoot(self.driver, name, self.shots)
        self.said += [f"{line['level']} {line['message']}" for line in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("ui")
    with browser.chromium(folder / "profile", width=1500, height=1000) as driver:  # skips before anything is trained
        server = Server(folder)
        server.start()
        try:
            write_space(
                folder,
                settings={"E_0": 2, "E_t": 2, "probe_epochs": 3},
                axes=AXES,
                selection={"per": ["buffer_size"]},
            )
            tune(folder, "--tracking-uri", server.uri)
            yield Page(driver, server.uri, folder / "screenshots")
        finally:
            server.kill()


AXES: dict[str, list[Any]] = {"eta": [0.005, 0.01], "kappa": [0.1], "buffer_size": [20, 50]}
NAMES = {f"η={eta} κ=0.1 M={size}" for eta in AXES["eta"] for size in AXES["buffer_size"]}


def test_a_finished_search_in_a_browser(page: Page) -> None:
    expand_the_study(page)
    trial, table = read_the_note(page)
    see_the_trials(page, table)
    see_the_selected_trial(page, trial)
    assert [line for line in page.said if not any(re.search(noise, line) for noise in NOISE)] == []


def expand_the_study(page: Page) -> None:
    page.open("#/experiments/1/runs?workflowType=machine_learning")
    page.find("//a[normalize-space()='small']")
    assert page.texts(".ag-row a") == ["small"], "the trials are below their study"
    page.find("//div[contains(@class, 'ag-row')]//button").click()
    page.wait(lambda: set(page.texts(".ag-row a")) == {"small", *NAMES})
    page.shoot("study-expanded")


def read_the_note(page: Page) -> tuple[str, str]:
    """The addresses of the first selected trial and of the table of all."""
    page.find("//a[normalize-space()='small']").click()
    note = page.find("//*[@data-testid='note-editor-preview-content']")
    assert "co2l on seq_digits: grid over eta, kappa, buffer_size" in note.text
    page.find("//button[@aria-label='Expand description']").click()
    assert [each.text for each in note.find_elements("css selector", "th")] == ["selected", "val/score", "buffer_size"]
    links = note.find_elements("css selector", "td a")
    assert len(links) == len(AXES["buffer_size"])
    assert {each.text for each in links} <= NAMES
    figures = note.find_elements("css selector", "img")
    named = [re.findall(r"figures/(\w+)\.png", each.get_attribute("src")) for each in figures]
    assert named == [["importance"], ["history"], ["parallel_coordinate"]]
    page.wait(lambda: all(each.get_property("naturalWidth") > 100 for each in figures))
    page.shoot("study-note")
    table = note.find_element("link text", "All trials by val/score")
    return links[0].get_attribute("href"), table.get_attribute("href")


def see_the_trials(page: Page, address: str) -> None:
    page.open(page.of(address))
    page.wait(lambda: set(page.texts(".ag-row a")) == NAMES)
    wanted = ["val/score", "val/class_il", "val/task_il", *AXES, "co2l.selected"]
    page.wait(lambda: [name for name in columns(page) if name in wanted] == wanted)
    scores = [float(text.rstrip("….")) for text in page.texts(".ag-row [col-id='metrics.`val/score`']")]
    assert len(scores) == len(NAMES)
    assert scores == sorted(scores, reverse=True)
    assert page.texts(".ag-row [col-id='tags.`co2l.selected`']").count("true") == len(AXES["buffer_size"])
    page.shoot("study-trials")


def columns(page: Page) -> list[str]:
    """Their names from left to right, which is not their order in the document."""
    heads = page.all("//*[contains(@class, 'ag-header-cell') and @col-id]")
    named = [each.get_attribute("col-id") for each in sorted(heads, key=lambda each: each.location["x"])]
    return [name.partition(".")[2].strip("`") for name in named]


def see_the_selected_trial(page: Page, address: str) -> None:
    page.open(page.of(address))
    page.find("//*[self::h1 or self::h2 or self::h3][contains(., 'η=')]")
    page.find("//*[text()='Model metrics']").click()
    for name in ("supcon", "distill", "class_il", "task_il"):
        chart = page.find(f"//*[text()='{name}']/ancestor::*[.//*[@class='js-line']][1]")
        lines = chart.find_elements("css selector", "path.js-line")
        assert any("L" in line.get_attribute("d") for line in lines), f"no curve of {name}"
    page.shoot("trial-curves")
    page.find("//*[text()='Artifacts']").click()
    page.find("//*[text()='accuracy_matrix.png']").click()
    figure = page.find("//*[contains(@class, 'image')]//img | //img[starts-with(@src, 'blob:')]")
    page.wait(lambda: figure.get_property("naturalWidth") > 300)
    page.shoot("trial-matrix")
