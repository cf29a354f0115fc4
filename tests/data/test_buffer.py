"""The buffer holds exactly M examples, equal per class up to one, each from the right task, drawn uniformly."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from co2l.data import buffer
from co2l.data.examples import Examples, concatenate
from co2l.data.randomness import generator_for


def task(t: int, counts: dict[int, int]) -> Examples:
    """A task whose image number i of task t has every pixel equal to i mod 256, in a scrambled order of rows."""
    labels = torch.cat([torch.full((n,), label) for label, n in counts.items()])
    n = len(labels)
    images = (torch.arange(n) % 256).to(torch.uint8)[:, None, None, None].expand(n, 1, 2, 2)
    return Examples(images.flip(0).contiguous(), labels, torch.full_like(labels, t), torch.arange(n).flip(0))


def fill(sizes: list[dict[int, int]], size: int | None, policy: str, seed: int = 0) -> Examples:
    held = buffer.empty((1, 2, 2))
    for t, counts in enumerate(sizes):
        held = buffer.add(held, task(t, counts), size, policy, generator_for(seed, t))
    return held


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 60), st.integers(0, 10_000))
def test_class_balanced_holds_exactly_m_and_equal_counts(tasks: int, per_task: int, extra: int, seed: int) -> None:
    size = tasks * per_task + extra
    sizes = [{t * per_task + c: 70 for c in range(per_task)} for t in range(tasks)]
    held = fill(sizes, size, "class_balanced", seed)
    counts = torch.bincount(held.labels, minlength=tasks * per_task)
    assert len(held) == min(size, 70 * tasks * per_task)
    assert int(counts.max() - counts.min()) <= 1
    assert torch.equal(held.tasks, held.labels // per_task)


def test_a_class_that_has_run_out_leaves_its_share_to_the_others() -> None:
    held = fill([{0: 2, 1: 50}, {2: 50, 3: 50}], 32, "class_balanced")
    assert torch.bincount(held.labels).tolist() == [2, 10, 10, 10]


def test_images_belong_to_their_labels_and_tasks() -> None:
    held = fill([{0: 40, 1: 60}, {2: 40, 3: 60}], 30, "class_balanced")
    for image, label in zip(held.images, held.labels.tolist(), strict=True):
        number = int(image.unique())  # in its task: the first 40 have the even label
        assert (number >= 40) == bool(label % 2)


@pytest.mark.parametrize("policy", ["class_balanced", "reservoir"])
def test_every_example_of_the_past_is_equally_likely(policy: str) -> None:
    """Statistical: over many seeds each example of every task is kept equally often (chi-square, p > 1e-4)."""
    kept = torch.zeros(3, 20)
    runs = 600
    for seed in range(runs):
        held = fill([{t: 20} for t in range(3)], 9, policy, seed)
        assert len(held) == 9
        kept.index_put_((held.tasks, held.images[:, 0, 0, 0].long()), torch.ones(9), accumulate=True)
    assert int(kept.sum()) == 9 * runs
    assert chisquare(kept.flatten().numpy()).pvalue > 1e-4


def test_the_reservoir_does_not_balance() -> None:
    """Uniform over all seen: the number from a small task is binomial-like, not fixed."""
    first = [int((fill([{0: 30}, {1: 10}], 8, "reservoir", seed).tasks == 1).sum()) for seed in range(500)]
    assert len(set(first)) > 3
    assert binomtest(sum(first), 500 * 8, 0.25).pvalue > 1e-4


def test_unlimited_keeps_everything() -> None:
    assert len(fill([{0: 40, 1: 60}, {2: 40}], None, "class_balanced")) == 140


def test_size_zero_keeps_nothing() -> None:
    assert len(fill([{0: 40, 1: 60}, {2: 40}], 0, "class_balanced")) == 0


def test_the_current_task_and_the_buffer_together_are_d() -> None:
    held = fill([{0: 40, 1: 60}], 10, "class_balanced")
    D = concatenate([task(1, {2: 30, 3: 30}), held])
    everything = D.gather(torch.randperm(len(D), generator=generator_for(0)))
    assert len(D) == 70
    assert sorted(everything.tasks.tolist()) == [0] * 10 + [1] * 60
    for image, label, t in zip(everything.images, everything.labels.tolist(), everything.tasks.tolist(), strict=True):
        number = int(image.unique())
        assert label // 2 == t
        assert (label % 2 == 1) == (number >= (40 if t == 0 else 30))


def batches(t: int, n: int, size: int) -> list[Examples]:
    return list(task(t, {0: n}).split(size))


def test_the_reservoir_batch_by_batch_is_as_uniform_as_in_one_go() -> None:
    """Statistical: over many seeds each of 3 × 20 examples is kept equally often (chi-square, p > 1e-4)."""
    kept = torch.zeros(3, 20)
    for seed in range(1000):
        held, generator = buffer.empty((1, 2, 2)), generator_for(seed)
        for t in range(3):
            for batch in batches(t, 20, 7):
                held = buffer.add(held, batch, 9, "reservoir", generator)
        assert len(held) == 9
        kept.index_put_((held.tasks, held.images[:, 0, 0, 0].long()), torch.ones(9), accumulate=True)
    assert chisquare(kept.flatten().numpy()).pvalue > 1e-4


def test_a_ring_holds_the_last_of_each_task() -> None:
    held = buffer.empty((1, 2, 2))
    for t in range(3):
        for batch in batches(t, 20, 7):
            held = buffer.add(held, batch, 4, "ring", generator_for(0))
    assert held.tasks.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert held.images[:, 0, 0, 0].tolist() == [16, 17, 18, 19] * 3


def test_task_balanced_shares_whatever_the_classes() -> None:
    held = fill([{0: 40, 1: 5}, {2: 40}, {3: 10, 4: 1, 5: 1}], 30, "task_balanced")
    assert held.tasks.bincount().tolist() == [10, 10, 10]


def test_given_priorities_choose_and_stored_logits_stay_with_their_examples() -> None:
    new = task(0, {0: 4, 1: 4})
    logits = torch.arange(8.0)[:, None].expand(8, 3)
    ranks = torch.tensor([3.0, 0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    new = replace(new, priorities=ranks, logits=logits)
    held = buffer.add(buffer.empty((1, 2, 2), logits=3), new, 4, "class_balanced", generator_for(0))
    assert held.images[:, 0, 0, 0].tolist() == [1, 2, 4, 5]
    assert held.logits is not None
    assert held.logits[:, 0].tolist() == [1, 2, 4, 5]
    later = replace(task(1, {0: 3}), logits=torch.tensor([[7.0], [8.0], [9.0]]).expand(3, 3))
    both = buffer.add(held, later, 4, "ring", generator_for(0))
    assert both.logits is not None
    assert both.logits[:, 0].tolist() == [1, 2, 4, 5, 7, 8, 9]
    with pytest.raises(ValueError, match="stores logits"):
        buffer.add(held, task(1, {0: 3}), 4, "ring", generator_for(0))


def test_a_buffer_without_logits_takes_none() -> None:
    new = replace(task(0, {0: 4}), logits=torch.zeros(4, 3))
    assert buffer.add(buffer.empty((1, 2, 2)), new, 2, "ring", generator_for(0)).logits is None


def test_the_buffer_has_its_own_images() -> None:
    new = task(0, {0: 5})
    held = buffer.add(buffer.empty((1, 2, 2)), new, None, "reservoir", generator_for(0))
    new.pool.zero_()
    assert held.images[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_draw_is_uniform_without_replacement() -> None:
    held = fill([{0: 30}], 10, "reservoir")
    assert sorted(buffer.draw(held, 99, generator_for(0)).tolist()) == list(range(10))
    drawn = torch.stack([buffer.draw(held, 3, generator_for(seed)) for seed in range(1500)])
    assert all(len(set(rows)) == 3 for rows in drawn.tolist())
    assert chisquare(drawn.flatten().bincount().numpy()).pvalue > 1e-4
