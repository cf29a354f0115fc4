"""Fixtures for pytest: a test for every promise of a kind, with `pytest_plugins = ["co2l.testing.fixtures"]`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from co2l.testing import KINDS, promises

Keeps = Callable[[str], None]


def pytest_generate_tests(metafunc: Any) -> None:
    """A test that asks for `method_promise` runs once for each of a method's promises."""
    for kind in KINDS:
        if (fixture := f"{kind}_promise") in metafunc.fixturenames:
            metafunc.parametrize(fixture, promises(kind), indirect=True, ids=lambda words: words.replace(" ", "_"))


def _promise(kind: str, request: Any, folder: Path) -> Keeps:
    check = promises(kind)[request.param]
    return lambda name: check(name, folder)


@pytest.fixture
def method_promise(request: pytest.FixtureRequest, tmp_path: Path) -> Keeps:
    return _promise("method", request, tmp_path)


@pytest.fixture
def benchmark_promise(request: pytest.FixtureRequest, tmp_path: Path) -> Keeps:
    return _promise("benchmark", request, tmp_path)


@pytest.fixture
def encoder_promise(request: pytest.FixtureRequest, tmp_path: Path) -> Keeps:
    return _promise("encoder", request, tmp_path)


@pytest.fixture
def algorithm_promise(request: pytest.FixtureRequest, tmp_path: Path) -> Keeps:
    return _promise("algorithm", request, tmp_path)
