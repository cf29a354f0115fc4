"""What a budget pays for, in epochs."""

from __future__ import annotations

import pytest

from co2l.errors import Co2lError
from co2l.search.space.budget import Budget


@pytest.mark.parametrize(
    ("text", "budget"),
    [("5000epochs", Budget(epochs=5000)), ("40gpuh", Budget(hours=40)), ("30eur@1.2", Budget(hours=25))],
)
def test_its_forms(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "5000", "0epochs", "-1gpuh", "30eur", "30eur@0", "4epochs@2", "nangpuh"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(Co2lError, match="is not a budget") as caught:
        Budget.parse(text)
    assert len(str(caught.value)) <= 300


def test_hours_pay_for_epochs_at_what_these_have_cost() -> None:
    """100 epochs took an hour on half a GPU: 10 GPU hours are 20 such hours."""
    assert Budget(hours=10).in_epochs(100, 1.0, 0.5) == pytest.approx(2000)
    assert Budget(hours=10).in_epochs(100, 1.0, 0) == pytest.approx(1000)
    assert Budget(hours=10).in_epochs(0, 0.0, 1) is None
    assert Budget(epochs=7).in_epochs(100, 1.0, 1) == 7
    assert Budget().in_epochs(100, 1.0, 1) is None
