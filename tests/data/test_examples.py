"""Examples keep image, label and task together, through selecting, joining, moving and storing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from co2l.data.examples import Examples, batches, concatenate

CPU = torch.device("cpu")


def numbered(first: int, n: int, *, pool: torch.Tensor | None = None, answered: bool = False) -> Examples:
    """Examples number `first`, `first` + 1, …: every column says which one it is; in a pool they lie backwards."""
    numbers = torch.arange(first, first + n)
    answers = {"priorities": numbers.double() / 100, "logits": numbers[:, None].float()} if answered else {}
    if pool is None:
        return Examples(images_of(numbers), numbers, numbers // 10, **answers)
    return Examples(pool, numbers, numbers // 10, len(pool) - 1 - numbers, **answers)


def images_of(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.to(torch.uint8)[:, None, None, None].expand(-1, 1, 2, 3).contiguous()


POOL = images_of(torch.arange(49, -1, -1))  # number i is row 49 − i


def assert_numbered(examples: Examples, numbers: list[int]) -> None:
    assert examples.labels.tolist() == numbers
    assert examples.tasks.tolist() == [number // 10 for number in numbers]
    assert examples.images.shape == (len(numbers), 1, 2, 3)
    assert examples.images[:, 0, 1, 2].tolist() == numbers
    if examples.logits is not None and examples.priorities is not None:
        assert examples.logits[:, 0].tolist() == numbers
        assert [round(100 * priority) for priority in examples.priorities.tolist()] == numbers


@pytest.mark.parametrize("pool", [None, POOL])
@pytest.mark.parametrize("answered", [True, False])
def test_what_is_gathered_belongs_together(pool: torch.Tensor | None, answered: bool) -> None:
    examples = numbered(7, 20, pool=pool, answered=answered)
    assert_numbered(examples, list(range(7, 27)))
    batch = examples.gather(torch.tensor([19, 0, 0, 3]))
    assert_numbered(batch, [26, 7, 7, 10])
    assert (batch.rows, batch.logits is not None) == (None, answered)
    assert examples.images_at(torch.tensor([1, 0]))[:, 0, 0, 0].tolist() == [8, 7]
    for part, start in zip(examples.split(8), (7, 15, 23), strict=True):
        assert_numbered(part, list(range(start, min(start + 8, 27))))


def test_gathering_copies_and_a_pool_is_shared() -> None:
    whole = POOL.clone()
    examples = numbered(0, 10, pool=whole)
    batch = examples.gather(torch.tensor([2]))
    whole.zero_()
    assert int(batch.images.max()) == 2
    assert int(examples.images.max()) == 0


def test_columns_must_have_one_length() -> None:
    with pytest.raises(ValueError, match="a column of 3 does not fit 2 labels"):
        Examples(POOL[:2], torch.zeros(2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="a column of 50 does not fit 2 labels"):
        Examples(POOL, torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))


def test_concatenating_rows_of_one_pool_copies_nothing() -> None:
    joined = concatenate([numbered(0, 5, pool=POOL), numbered(30, 4, pool=POOL)])
    assert joined.pool is POOL
    assert_numbered(joined, [0, 1, 2, 3, 4, 30, 31, 32, 33])


def test_concatenating_with_nothing_copies_nothing() -> None:
    task = numbered(0, 5, pool=POOL)
    assert concatenate([task, numbered(0, 0)]) is task
    assert len(concatenate([numbered(0, 0), numbered(0, 0)])) == 0


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, False)])
def test_concatenating_keeps_a_column_that_all_have(first: bool, second: bool) -> None:
    joined = concatenate([numbered(3, 5, pool=POOL, answered=first), numbered(20, 3, answered=second)])
    assert_numbered(joined, [3, 4, 5, 6, 7, 20, 21, 22])
    assert (joined.logits is not None) == (joined.priorities is not None) == (first and second)


@pytest.mark.parametrize("answered", [True, False])
def test_state_round_trip(answered: bool) -> None:
    examples = numbered(4, 6, pool=POOL, answered=answered)
    state = examples.state()
    assert set(state) == {"images", "labels", "tasks"} | ({"priorities", "logits"} if answered else set())
    assert_numbered(Examples.from_state(state), list(range(4, 10)))
    assert (Examples.from_state(state).logits is not None) == answered


def test_examples_stay_where_they_are_on_the_cpu_and_move_without_their_pool_elsewhere() -> None:
    examples = numbered(4, 6, pool=POOL, answered=True)
    assert examples.to("cpu") is examples
    elsewhere = examples.to("meta")  # a device that holds shapes only
    assert elsewhere.images.shape == (6, 1, 2, 3)
    assert {column.device for column in elsewhere.state().values()} == {torch.device("meta")}


@given(n=st.integers(1, 60), size=st.integers(1, 20), current=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_an_epoch_is_cut_into_batches_with_the_current_task_first(n: int, size: int, current: int, seed: int) -> None:
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    cut = [order[i : i + size].tolist() for i in range(0, n, size)]
    expected = [[i for i in each if i < current] + [i for i in each if i >= current] for each in cut]
    assert [batch.tolist() for batch in batches(order, size, current, CPU)] == expected


def test_the_batches_of_an_epoch_are_one_upload() -> None:
    found = batches(torch.arange(10), 4, 10, CPU)
    assert [len(batch) for batch in found] == [4, 4, 2]
    assert len({batch.untyped_storage().data_ptr() for batch in found}) == 1
