"""The buffer holds exactly M samples, equal per class up to one, each from the right task, drawn uniformly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from co2l.data.buffer import Buffer, Union
from co2l.data.buffer_policies import herding_ranks, quotas
from co2l.data.randomness import stream
from co2l.data.streams import Samples


def task(t: int, counts: dict[int, int]) -> Samples:
    """A task whose image number i of task t has every pixel equal to i mod 256, in a scrambled order of rows."""
    labels = torch.cat([torch.full((n,), label) for label, n in counts.items()])
    n = len(labels)
    images = (torch.arange(n) % 256).to(torch.uint8)[:, None, None, None].expand(n, 1, 2, 2)
    return Samples(images.flip(0).contiguous(), torch.arange(n).flip(0), labels)


def fill(sizes: list[dict[int, int]], size: int | None, policy: str, seed: int = 0) -> Buffer:
    buffer = Buffer.empty((1, 2, 2))
    for t, counts in enumerate(sizes):
        buffer = buffer.take(task(t, counts), t, size, policy, stream(seed, t))
    return buffer


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 60), st.integers(0, 10_000))
def test_class_balanced_holds_exactly_m_and_equal_counts(tasks: int, per_task: int, extra: int, seed: int) -> None:
    size = tasks * per_task + extra
    sizes = [{t * per_task + c: 70 for c in range(per_task)} for t in range(tasks)]
    buffer = fill(sizes, size, "class_balanced", seed)
    counts = torch.bincount(buffer.labels, minlength=tasks * per_task)
    assert len(buffer) == min(size, 70 * tasks * per_task)
    assert int(counts.max() - counts.min()) <= 1
    assert torch.equal(buffer.tasks, buffer.labels // per_task)


def test_a_class_that_has_run_out_leaves_its_share_to_the_others() -> None:
    buffer = fill([{0: 2, 1: 50}, {2: 50, 3: 50}], 32, "class_balanced")
    assert torch.bincount(buffer.labels).tolist() == [2, 10, 10, 10]


def test_images_belong_to_their_labels_and_tasks() -> None:
    buffer = fill([{0: 40, 1: 60}, {2: 40, 3: 60}], 30, "class_balanced")
    for image, label in zip(buffer.images, buffer.labels.tolist(), strict=True):
        number = int(image.unique())  # its place in its task: the first 40 have the even label
        assert (number >= 40) == bool(label % 2)


@pytest.mark.parametrize("policy", ["class_balanced", "reservoir"])
def test_every_sample_of_the_past_is_equally_likely(policy: str) -> None:
    """Statistical: over many seeds each sample of every task is kept equally often (chi-square, p > 1e-4)."""
    kept = torch.zeros(3, 20)
    runs = 2000
    for seed in range(runs):
        buffer = fill([{t: 20} for t in range(3)], 9, policy, seed)
        assert len(buffer) == 9
        kept.index_put_((buffer.tasks, buffer.images[:, 0, 0, 0].long()), torch.ones(9), accumulate=True)
    assert int(kept.sum()) == 9 * runs
    assert chisquare(kept.flatten().numpy()).pvalue > 1e-4


def test_the_reservoir_does_not_balance() -> None:
    """Uniform over all seen: the number from a small task is binomial-like, not fixed."""
    first = [int((fill([{0: 30}, {1: 10}], 8, "reservoir", seed).tasks == 1).sum()) for seed in range(500)]
    assert len(set(first)) > 3
    assert binomtest(sum(first), 500 * 8, 0.25).pvalue > 1e-4


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any), st.integers(0, 100), st.integers(0, 99))
def test_quotas(available: list[int], size: int, seed: int) -> None:
    granted = quotas(torch.tensor(available), size, stream(seed))
    assert int(granted.sum()) == min(size, sum(available))
    assert all(0 <= g <= a for g, a in zip(granted.tolist(), available, strict=True))
    rich = [g for g, a in zip(granted.tolist(), available, strict=True) if g < a]
    assert not rich or int(granted.max()) - min(rich) <= 1


def test_unlimited_keeps_everything() -> None:
    assert len(fill([{0: 40, 1: 60}, {2: 40}], None, "class_balanced")) == 140


def test_size_zero_keeps_nothing() -> None:
    assert len(fill([{0: 40, 1: 60}, {2: 40}], 0, "class_balanced")) == 0


def test_state_round_trip() -> None:
    buffer = fill([{0: 40, 1: 60}], 10, "class_balanced")
    again = Buffer.from_state(buffer.state())
    assert all(torch.equal(value, again.state()[name]) for name, value in buffer.state().items())


def test_union_gathers_images_with_their_own_labels() -> None:
    buffer = fill([{0: 40, 1: 60}], 10, "class_balanced")
    now = task(1, {2: 30, 3: 30})
    union = Union(now, 1, buffer)
    index = torch.randperm(len(union), generator=stream(0))
    images, labels, tasks = union.gather(index)
    assert len(union) == 70
    assert sorted(tasks.tolist()) == [0] * 10 + [1] * 60
    for image, label, t in zip(images, labels.tolist(), tasks.tolist(), strict=True):
        number = int(image.unique())
        assert label // 2 == t
        assert (label % 2 == 1) == (number >= (40 if t == 0 else 30))
    assert torch.equal(union.labels().bincount(), labels.bincount())


def batches(t: int, n: int, size: int) -> list[Samples]:
    whole = task(t, {0: n})
    return [Samples(whole.images, rows, whole.labels[: len(rows)]) for rows in whole.rows.split(size)]


def test_the_reservoir_batch_by_batch_is_as_uniform_as_in_one_go() -> None:
    """Statistical: over many seeds each of 3 × 20 samples is kept equally often (chi-square, p > 1e-4)."""
    kept = torch.zeros(3, 20)
    for seed in range(1000):
        buffer, generator = Buffer.empty((1, 2, 2)), stream(seed)
        for t in range(3):
            for batch in batches(t, 20, 7):
                buffer = buffer.take(batch, t, 9, "reservoir", generator)
        assert len(buffer) == 9
        kept.index_put_((buffer.tasks, buffer.images[:, 0, 0, 0].long()), torch.ones(9), accumulate=True)
    assert chisquare(kept.flatten().numpy()).pvalue > 1e-4


def test_a_ring_holds_the_last_of_each_task() -> None:
    buffer = Buffer.empty((1, 2, 2))
    for t in range(3):
        for batch in batches(t, 20, 7):
            buffer = buffer.take(batch, t, 4, "ring", stream(0))
    assert buffer.tasks.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert buffer.images[:, 0, 0, 0].tolist() == [16, 17, 18, 19] * 3


def test_task_balanced_shares_whatever_the_classes() -> None:
    buffer = fill([{0: 40, 1: 5}, {2: 40}, {3: 10, 4: 1, 5: 1}], 30, "task_balanced")
    assert buffer.tasks.bincount().tolist() == [10, 10, 10]


def test_given_priorities_choose_and_stored_logits_stay_with_their_samples() -> None:
    new = task(0, {0: 4, 1: 4})
    logits = torch.arange(8.0)[:, None].expand(8, 3)
    ranks = torch.tensor([3.0, 0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    buffer = Buffer.empty((1, 2, 2), logits=3).take(
        new, 0, 4, "class_balanced", stream(0), priorities=ranks, logits=logits
    )
    assert buffer.images[:, 0, 0, 0].tolist() == [1, 2, 4, 5]
    assert buffer.logits is not None
    assert buffer.logits[:, 0].tolist() == [1, 2, 4, 5]
    assert buffer.take(task(1, {0: 3}), 1, 4, "ring", stream(0), logits=torch.zeros(3, 3)).logits is not None
    again = Buffer.from_state(buffer.state())
    assert again.logits is not None
    assert torch.equal(again.logits, buffer.logits)


def test_a_draw_is_uniform_without_replacement() -> None:
    buffer = fill([{0: 30}], 10, "reservoir")
    assert sorted(buffer.draw(99, stream(0)).tolist()) == list(range(10))
    drawn = torch.stack([buffer.draw(3, stream(seed)) for seed in range(1500)])
    assert all(len(set(rows)) == 3 for rows in drawn.tolist())
    assert chisquare(drawn.flatten().bincount().numpy()).pvalue > 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_herding_is_the_best_next_exemplar_of_all(seed: int) -> None:
    """Against an exhaustive search in plain Python: of all samples left, the one with the closest mean."""
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
