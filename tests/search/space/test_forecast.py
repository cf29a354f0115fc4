"""The roofline: what its arithmetic says for kernels that are counted by hand."""

from __future__ import annotations

import pytest

from co2l.errors import Co2lError
from co2l.learning.cards import CARDS, Card, card
from co2l.learning.counting import Kernel
from co2l.learning.footprint import footprint
from co2l.learning.methods import configure
from co2l.search.space import forecast
from co2l.search.space.estimate import estimate
from co2l.search.space.space import parse

ROUND = Card("round", "", gib=10, fp32=10, tf32=20, bf16=40, bandwidth=1000)  # 10¹³ FLOP/s and 10¹² bytes/s


def test_a_kernel_takes_as_long_as_its_flops_or_its_bytes() -> None:
    compute, traffic = Kernel("convolution", 6 * 10**12, 10**9), Kernel("add", 0, 750 * 10**9)
    assert forecast.seconds([compute], ROUND, "fp32") == pytest.approx(1.0)  # 60% of 10¹³
    assert forecast.seconds([compute], ROUND, "tf32") == pytest.approx(0.75)  # 40% of 2 · 10¹³
    assert forecast.seconds([traffic], ROUND, "fp32") == forecast.seconds([traffic], ROUND, "bf16") == pytest.approx(1)
    assert forecast.seconds([compute, traffic], ROUND, "fp32") == pytest.approx(2.0)


def test_many_small_kernels_take_as_long_as_their_launches() -> None:
    tiny = [Kernel("add", 0, 8)] * 1000
    assert forecast.seconds(tiny, ROUND, "fp32") == pytest.approx(8e-3)
    assert forecast.seconds(tiny, ROUND, "fp32", share=0.5) == pytest.approx(8e-3)  # its own host is as busy as before
    assert forecast.seconds([Kernel("mm", 6 * 10**12, 0)], ROUND, "fp32", share=0.5) == pytest.approx(2.0)


def test_a_forecast_adds_up_steps_of_the_network() -> None:
    """Two configurations that share their first stage, counted from the footprints of a step."""
    settings = {"E_0": 3, "E_t": 2, "batch_size": 500, "buffer_size": 200}
    space = parse({"benchmark": "r_mnist", "settings": settings, "axes": {"kappa": [0.1, 0.2]}}, "two")
    config = next(iter(space.trials())).config
    steps = [forecast.seconds(footprint(config, t).kernels, CARDS["a10g"], "fp32") for t in (0, 1)]
    first, later = 54_000 / 500 * steps[0], 19 * 54_200 / 500 * steps[1]
    found = estimate(space, forecast.forecast(CARDS["a10g"], 1.0), parallel=2, price=3.0)
    assert found.trial_hours == pytest.approx((3 * first + 2 * 2 * later) / 3600)
    assert found.trial_hours_naive == pytest.approx((2 * 3 * first + 2 * 2 * later) / 3600)
    assert found.money == pytest.approx(found.trial_hours / 2 * 3.0)


def test_a_faster_card_is_faster() -> None:
    kernels = footprint(configure("seq_cifar10", "er", {"batch_size": 512})).kernels
    hours = [forecast.seconds(kernels, CARDS[name], "fp32") for name in ("t4", "a10g", "l40s", "h100")]
    assert hours == sorted(hours, reverse=True)


def test_an_unknown_card() -> None:
    with pytest.raises(Co2lError, match="unknown card 'a10'; did you mean 'a10g'"):
        card("a10")
    assert card("A100-80GB").gib > 2 * card("a100").gib - 1
