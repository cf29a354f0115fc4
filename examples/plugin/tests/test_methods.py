"""Both methods keep the promises of co2l.testing."""

from __future__ import annotations

import pytest

from co2l.testing.fixtures import Keeps


@pytest.mark.parametrize("name", ["er_ace", "scr"])
def test_it_keeps_every_promise(name: str, method_promise: Keeps) -> None:
    method_promise(name)
