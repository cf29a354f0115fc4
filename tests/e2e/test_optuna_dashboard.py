"""A finished search in Optuna's dashboard, seen by a real browser: a named objective, and scores after each task."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import browser
import pytest
from searches import Undisturbed, copy_database
from test_mlflow_ui import Page


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page(tmp_path: Path, undisturbed: Undisturbed) -> Iterator[Page]:
    dashboard = pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed: co2l[dashboard]")
    copy_database(undisturbed.root / "study.db", tmp_path / "study.db")
    with make_server("127.0.0.1", 0, dashboard.wsgi(f"sqlite:///{tmp_path}/study.db"), handler_class=Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser.chromium(tmp_path / "profile", width=1500, height=1000) as driver:
            yield Page(driver, f"http://127.0.0.1:{server.server_port}", tmp_path / "screenshots")
        server.shutdown()


def test_a_finished_search_in_optuna_s_dashboard(page: Page, undisturbed: Undisturbed) -> None:
    page.open("dashboard/studies/1")
    page.see("//*[starts-with(normalize-space(), 'small (id=1)')]")
    page.see("//*[name()='text' and text()='val/score']")  # the axis of the history
    page.wait(lambda: page.all("//*[contains(@class, 'scatterlayer')]//*[contains(@class, 'point')]"))
    page.shoot("optuna-dashboard")
    page.open("dashboard/studies/1/trials?numbers=0")
    page.see("//*[text()='Intermediate Values']")
    for task in range(1, 5):
        page.see(f"//*[starts-with(normalize-space(), '{task} ')]")
    page.shoot("optuna-trial")
