"""How a plan shows times."""

from __future__ import annotations

import pytest

from co2l.cli.plan import duration


@pytest.mark.parametrize(
    ("hours", "shown"),
    [
        (657_543, "75.0 years"),
        (8_766, "1.0 years"),
        (8_765, "365.2 days"),
        (48, "2.0 days"),
        (36, "36.0 h"),
        (1, "1.0 h"),
        (0.5, "30.0 min"),
        (0.01, "36.0 s"),
        (0.0001, "0.4 s"),
    ],
)
def test_times_are_shown_in_the_unit_that_people_would_use(hours: float, shown: str) -> None:
    assert duration(hours) == shown
