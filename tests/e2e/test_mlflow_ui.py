"""A finished search in the MLflow UI, seen by a real browser: its trials, its note, the selected trial's figures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from mlflow_server import Server
from searches import SPACE, Undisturbed, copy_database

from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.methods import METHODS
from co2l.learning.store import Store
from co2l.search.selection.seeds import SeedSummary
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.space import parse
from co2l.search.tracking import Tracker

SECONDS = 60  # for a page to show what it loads
# What MLflow 3.17 itself says on every page, whatever is in it.
NOISE = (
    r"/ajax-api/2\.0/mlflow/users/current - .* 404 ",  # it asks who is logged in, also where nobody can be
    r'"AG Grid: since v27\.1, ',  # its table is older than its own table library
    r'"ResizeObserver loop completed with undelivered notifications\."$',  # its charts grow with their page
    r"/static/js/\S+ \S+ Error: <(g|path|rect)> attribute \w+: .*(NaN|negative value)",  # its charts, on a busy machine
)

IN_WINDOW = """
const box = arguments[0].getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
const within = (outer) => outer.left <= x && x <= outer.right && outer.top <= y && y <= outer.bottom;
let shown = box.width > 0 && within({left: 0, top: 0, right: innerWidth, bottom: innerHeight});
for (let above = arguments[0].parentElement; above; above = above.parentElement)
    if (getComputedStyle(above).overflow !== "visible" && above !== document.body && above.tagName !== "svg")
        shown = shown && within(above.getBoundingClientRect());
return shown;
"""


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

    def in_window(self, element: Any) -> bool:
        """Whether it is in sight without scrolling: its middle is in the window, and not cut off there."""
        return bool(self.driver.execute_script(IN_WINDOW, element))

    def see(self, xpath: str) -> Any:
        """The first of these elements that is in the window."""
        return self.wait(lambda: next((each for each in self.all(xpath) if self.in_window(each)), None))

    def shoot(self, name: str) -> None:
        for each in self.all("//*[@data-component-id='mlflow.assistant.chat_panel.close']"):
            each.click()  # it takes a quarter of the page
        browser.shoot(self.driver, name, self.shots)
        self.said += [f"{line['level']} {line['message']}" for line in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, undisturbed: Undisturbed) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("ui")
    with browser.chromium(folder / "profile", width=1500, height=1000) as driver:
        server = Server(folder)
        copy_database(undisturbed.root / "mlflow.db", folder / "server.db")
        server.start()
        try:
            yield Page(driver, server.uri, folder / "screenshots")
        finally:
            server.kill()


AXES: dict[str, list[Any]] = SPACE["axes"]
PLAIN = {f"η={eta} κ={kappa} M={size}" for eta, kappa, size in itertools.product(*AXES.values())}


@pytest.fixture(scope="module")
def names(undisturbed: Undisturbed) -> set[str]:
    """Of all trials, with a star before those that were selected."""
    chosen = [each["settings"] for each in undisturbed.outcome["selected"]]
    starred = {f"η={each['eta']} κ={each['kappa']} M={each['buffer_size']}" for each in chosen}
    return {f"★ {name}" if name in starred else name for name in PLAIN}


def test_a_finished_search_in_a_browser(page: Page, names: set[str], undisturbed: Undisturbed) -> None:
    expand_the_study(page, names)
    trial, table, charts = read_the_note(page, undisturbed)
    see_the_trials(page, names, table)
    compare_the_trials(page, charts)
    see_the_selected_trial(page, trial)
    assert [line for line in page.said if not any(re.search(noise, line) for noise in NOISE)] == []


def expand_the_study(page: Page, names: set[str]) -> None:
    page.open("#/experiments/1/runs?workflowType=machine_learning")
    page.find("//a[normalize-space()='small']")
    assert page.texts(".ag-row a") == ["small"], "the trials are below their study"
    page.find("//div[contains(@class, 'ag-row')]//button").click()
    page.wait(lambda: set(page.texts(".ag-row a")) == {"small", *names})
    page.shoot("study-expanded")


def read_the_note(page: Page, undisturbed: Undisturbed) -> tuple[str, str, str]:
    """The addresses of the first selected trial, of the table of all, and of charts of them."""
    page.find("//a[normalize-space()='small']").click()
    note = page.find("//*[@data-testid='note-editor-preview-content']")
    heads = ["★ selected", "Class-IL (%)", "Task-IL (%)", "val/score", "to the second"]
    page.wait(lambda: [each.text for each in note.find_elements("css selector", "th")] == heads)
    links = note.find_elements("css selector", "td a")
    assert len(links) == len(AXES["buffer_size"])
    assert {each.text for each in links} <= PLAIN
    assert all(page.in_window(each) for each in note.find_elements("css selector", "td")), "it is the first thing seen"
    best = undisturbed.outcome["selected"][0]["score"]
    page.see(f"//a[normalize-space()='buffer_size_{AXES['buffer_size'][0]}/val/score']")
    page.see(f"//*[normalize-space()='{round(best, 2):g}']")
    page.shoot("study-selection")
    page.find("//button[@aria-label='Expand description']").click()
    assert "co2l on seq_digits: grid over eta, kappa, buffer_size" in note.text
    figures = note.find_elements("css selector", "img")
    named = [re.findall(r"figures/(\w+)\.png", each.get_attribute("src")) for each in figures]
    assert named == [["importance"], ["history"], ["parallel_coordinate"]]
    page.wait(lambda: all(each.get_property("naturalWidth") > 100 for each in figures))
    page.shoot("study-note")
    table = note.find_element("link text", "All trials by val/score")
    charts = note.find_element("link text", "charts that compare them")
    return links[0].get_attribute("href"), table.get_attribute("href"), charts.get_attribute("href")


def see_the_trials(page: Page, names: set[str], address: str) -> None:
    page.open(page.of(address))
    page.wait(lambda: set(page.texts(".ag-row a")) == names)
    wanted = ["co2l.selected", "val/score", "val/class_il", "val/task_il", *AXES, "co2l.status"]
    page.wait(lambda: [name for name in columns(page) if name in wanted] == wanted)
    texts = page.texts(".ag-row [col-id='metrics.`val/score`']")
    assert all(re.fullmatch(r"\d+(\.\d\d?)?", text) for text in texts), "rounded, and not cut off"
    scores = [float(text) for text in texts]
    assert len(scores) == len(names)
    assert scores == sorted(scores, reverse=True)
    assert page.texts(".ag-row [col-id='tags.`co2l.selected`']").count("★") == len(AXES["buffer_size"])
    for name in wanted[:-1]:
        page.see(f"//*[contains(@class, 'ag-header-cell') and contains(@col-id, '{name}')]")
    page.shoot("study-trials")


def compare_the_trials(page: Page, address: str) -> None:
    page.open(page.of(address))
    page.see("//*[text()='what matters (4)' or text()='what matters']")
    page.see("//*[text()='Parallel Coordinates']")
    page.see("//*[text()='val/score' or @title='val/score']")
    page.wait(lambda: page.all("//*[contains(@class, 'barlayer')]//*[contains(@class, 'point')]"))
    assert not [each for each in page.all("//*[starts-with(text(), 'loss/')]") if page.in_window(each)], "losses later"
    page.shoot("study-charts")


def columns(page: Page) -> list[str]:
    """Their names from left to right, which is not their order in the document."""
    heads = page.all("//*[contains(@class, 'ag-header-cell') and @col-id]")
    named = [each.get_attribute("col-id") for each in sorted(heads, key=lambda each: each.location["x"])]
    return [name.partition(".")[2].strip("`") for name in named]


def see_the_selected_trial(page: Page, address: str) -> None:
    page.open(page.of(address))
    page.find("//*[self::h1 or self::h2 or self::h3][contains(., 'η=')]")
    page.find("//*[text()='Model metrics']").click()
    page.see("//*[self::h1 or self::h2 or self::h3][contains(., '★')]")
    searched = page.find("//input[@placeholder='Search metric charts']")
    for section, charts in {"loss/": ["supcon", "distill"], "val_fast/": ["class_il", "forgetting_class_il"]}.items():
        searched.send_keys(section)
        for name in charts:
            chart = page.see(f"//*[text()='{name}']/ancestor::*[.//*[@class='js-line']][1]")
            lines = chart.find_elements("css selector", "path.js-line")
            assert any("L" in line.get_attribute("d") for line in lines), f"no curve of {name}"
        page.shoot(f"trial-{section.strip('/')}")
        searched.send_keys("\b" * len(section))
    page.find("//*[text()='Artifacts']").click()
    page.find("//*[text()='accuracy_matrix.png']").click()
    figure = page.find("//*[contains(@class, 'image')]//img | //img[starts-with(@src, 'blob:')]")
    page.wait(lambda: figure.get_property("naturalWidth") > 300)
    page.shoot("trial-matrix")


def test_a_registered_model_says_what_it_is(page: Page, tmp_path: Path) -> None:
    register_a_model(page.address, tmp_path)
    page.open("#/models/small")
    page.see("//*[contains(text(), 'models:/small@selected')]")
    for alias in ("selected", "buffer_20"):
        page.see(f"//*[text()[contains(., '{alias}')]]")
    page.see("//*[contains(text(), 'Class-IL 91.00')]")
    page.shoot("model")
    page.open("#/models/small/versions/1")
    page.see("//*[contains(text(), 'Class-IL 91.00 ± 1.41, Task-IL 99.00 ± 0.00')]")
    page.see("//*[text()='eta=0.005']")
    page.see("//*[starts-with(normalize-space(), 'Inputs (')]")
    page.see("//*[starts-with(normalize-space(), 'Outputs (')]")
    page.shoot("model-version")


def register_a_model(uri: str, folder: Path) -> None:
    """A classifier that nothing trained, through what an evaluation calls."""
    space = parse({**SPACE, "selection": {}, "seeds": [0, 1]}, "small", Evaluation)
    trial = next(space.trials())
    config, of = trial.config, BENCHMARKS[space.benchmark]
    weights = METHODS[config.method].blank_classifier(config.settings, of).state_dict()
    Store(folder / "store").save_state("c/c", dict(weights))
    tested = SeedSummary(trial.values, (0, 1), {"class_il": (90.0, 92.0), "task_il": (99.0, 99.0)}, "paper's probe")
    tracker = Tracker.open(uri, "small.test", space=space, spool=folder / "spool")
    tracker.begin(trial)
    aliases = ["selected", f"buffer_{trial.values['buffer_size']}"]
    tracker.register(trial, "small", store=str(folder / "store"), key="c/c", aliases=aliases, tested=tested)
    assert tracker.close(60) == 0
