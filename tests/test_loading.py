"""Nobody looks for garbage while libraries are loaded, and afterwards as before."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator

import pytest

from co2l.loading import loading


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_nothing_is_collected_inside() -> None:
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_one_inside_another_leaves_the_end_to_it() -> None:
    with loading():
        with loading():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_ends_with_an_import_that_fails() -> None:
    with pytest.raises(ModuleNotFoundError), loading():
        importlib.import_module("no_such_module")
    assert gc.isenabled()


def test_who_has_turned_the_collector_off_keeps_it_so() -> None:
    gc.disable()
    with loading():
        pass
    assert not gc.isenabled()
