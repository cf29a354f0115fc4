"""How a report writes numbers and the names of benchmarks."""

from __future__ import annotations

from co2l.reporting.document import Item
from co2l.reporting.paper import Printed, paper
from co2l.reporting.statistics import Summary

NONE = Item("–", "muted")


def number(value: float, *, sign: bool = False) -> str:
    return f"{value:+.2f}".replace("-", "−") if sign else f"{value:.2f}".replace("-", "−")


def spread(summary: Summary | Printed) -> str:
    """mean ± std, or the mean alone if there is one seed."""
    return number(summary.mean) if summary.std is None else f"{number(summary.mean)} ± {number(summary.std)}"


def interval(summary: Summary) -> str:
    return "" if summary.interval is None else f"[{number(summary.interval[0])}, {number(summary.interval[1])}]"


def benchmark_name(benchmark: str) -> str:
    return paper().benchmarks.get(benchmark, f"`{benchmark}`")
