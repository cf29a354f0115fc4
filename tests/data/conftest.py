"""Data roots, small and real, and a machine without a network."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest


@pytest.fixture(params=["small", "real"])
def root(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(f"{request.param}_data")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every download fails at once: nothing listens at this proxy."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # it would remember the proxy beyond this test
