"""The numbers that flags take: within bounds that make sense, or an error that names them."""

from __future__ import annotations

import argparse
from collections.abc import Callable

SEED = 2**63 - 1  # the largest that every generator takes


def whole(low: int, high: int) -> Callable[[str], int]:
    """The type of a flag for a whole number."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a whole number from {low} to {high}")
        return number

    return read


def real(low: float, high: float) -> Callable[[str], float]:
    """The type of a flag for any number."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number from {low:g} to {high:g}")
        return number

    return read


COUNT = whole(1, 1_000_000)
SECONDS = real(0, 1e9)
