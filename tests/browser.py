"""A headless Chromium without a network, or a skipped test that says why there is none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars"),
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",  # a mouse
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no name leads anywhere but to this machine
]


@contextmanager
def chromium(profile: Path, *, width: int = 1400, height: int = 1000) -> Iterator[Any]:
    selenium = pytest.importorskip(
        "selenium.webdriver", reason="a browser is driven with selenium, which is not installed"
    )
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("there is no Chromium with its driver: install chromium and chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = browser
    for flag in [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    try:
        yield opened
    finally:
        opened.quit()


def shoot(opened: Any, name: str, otherwise: Path) -> None:
    """A screenshot in the folder of $CO2L_SCREENSHOTS, or in another one."""
    folder = Path(os.environ.get("CO2L_SCREENSHOTS") or otherwise)
    folder.mkdir(parents=True, exist_ok=True)
    opened.save_screenshot(str(folder / f"{name}.png"))
    assert (folder / f"{name}.png").stat().st_size > 10_000, f"the page {name} is empty"


def requested(opened: Any) -> list[str]:
    """The addresses that were asked for, without those of the browser's own first page."""
    events = [json.loads(line["message"])["message"] for line in opened.get_log("performance")]
    sent = [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("chrome", "data:"))]
