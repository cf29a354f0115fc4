"""What methods, benchmarks, encoders and algorithms promise, as checks for ours and for those of plug-ins.

    python -m co2l.testing my_method --import my_method.py

runs them one by one. In a test suite of your own, `pytest_plugins = ["co2l.testing.fixtures"]` in conftest.py gives

    def test_my_method(method_promise): method_promise("my_method")

a test for every promise, and the fixtures `benchmark_promise`, `encoder_promise` and `algorithm_promise` alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

KINDS = ("method", "benchmark", "encoder", "algorithm")
Check = Callable[[str, Path], None]  # of a name and an empty folder; an AssertionError says what is broken


def promises(kind: str) -> dict[str, Check]:
    """The promises of a kind by what they say, such as "another seed gives other weights"."""
    module = importlib.import_module(f"co2l.testing.{kind}s")
    return {check.__name__.replace("_", " "): check for check in module.PROMISES}
