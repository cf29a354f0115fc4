"""The memory of a search: the largest trial decides, and a card must hold it within the trial's share."""

from __future__ import annotations

import pytest

from co2l.learning.cards import CARDS
from co2l.learning.footprint import footprint
from co2l.learning.methods import configure
from co2l.search.space.memory import memory, size
from co2l.search.space.space import parse


def test_the_largest_trial_decides() -> None:
    axes = {"batch_size": [64, 16], "buffer_size": [100, 300], "kappa": [0.1, 0.2]}
    found = memory(parse({"benchmark": "seq_digits", "axes": axes}, "grid"))
    assert [need.settings for need in found.needs] == [{"batch_size": 16}, {"batch_size": 64}]
    largest = footprint(configure("seq_digits", "co2l", {"batch_size": 64, "buffer_size": 300}))
    assert found.most.footprint.peak == pytest.approx(largest.peak, rel=1e-3)
    assert found.shown().startswith(f"{size(largest.peak)} (batch_size=64), ")
    assert found.as_dict()["cards"] is None  # it asks for no GPU


def test_the_end_of_a_range_counts_whatever_is_drawn() -> None:
    axes = {"batch_size": {"low": 16, "high": 48}, "eta": {"low": 0.01, "high": 1.0, "log": True}}
    space = parse({"benchmark": "seq_digits", "axes": axes, "algorithm": "random", "samples": 3}, "ranges")
    assert memory(space).most.settings == {"batch_size": 48}


def test_a_share_of_a_card_is_a_share_of_its_memory() -> None:
    document = {"benchmark": "r_mnist", "axes": {"batch_size": [1024]}}
    whole = memory(parse({**document, "resources": {"gpus": 1}}, "whole"))
    tenth = memory(parse({**document, "resources": {"gpus": 0.05}}, "a twentieth"))
    assert CARDS["t4"] in whole.fitting
    assert CARDS["t4"] not in tenth.fitting  # 1.2 GiB of 0.73
    assert CARDS["a100-80gb"] in tenth.fitting


def test_sizes_are_shown_in_their_unit() -> None:
    assert size(3 * 2**20) == "3.0 MiB"
    assert size(3 * 2**30) == "3.0 GiB"
