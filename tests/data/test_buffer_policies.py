"""A policy grants every group its share, and herding takes the exemplar that serves the class mean best."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from co2l.data.buffer_policies import herding_ranks, quotas
from co2l.data.randomness import generator_for


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any), st.integers(0, 100), st.integers(0, 99))
def test_quotas(available: list[int], size: int, seed: int) -> None:
    granted = quotas(torch.tensor(available), size, generator_for(seed))
    assert int(granted.sum()) == min(size, sum(available))
    assert all(0 <= g <= a for g, a in zip(granted.tolist(), available, strict=True))
    rich = [g for g, a in zip(granted.tolist(), available, strict=True) if g < a]
    assert not rich or int(granted.max()) - min(rich) <= 1


@pytest.mark.parametrize("seed", range(4))
def test_herding_is_the_best_next_exemplar_of_all(seed: int) -> None:
    """Against an exhaustive search in plain Python: of all examples left, the one with the closest mean."""
    rng = np.random.default_rng(seed)
    features, labels = rng.normal(size=(14, 3)), np.array([0] * 8 + [1] * 6)
    ranks = herding_ranks(torch.tensor(features), torch.tensor(labels), 5)
    for label in (0, 1):
        own = [i for i in range(14) if labels[i] == label]
        mean = sum(features[i] for i in own) / len(own)
        chosen: list[int] = []
        for _ in range(5):
            means = {i: sum(features[j] for j in [*chosen, i]) / (len(chosen) + 1) for i in own if i not in chosen}
            chosen.append(min(means, key=lambda i: float(np.linalg.norm(mean - means[i]))))
        assert [int((ranks[own] == k).nonzero()) for k in range(5)] == [own.index(i) for i in chosen]
        assert torch.isinf(ranks[own]).sum() == len(own) - 5
