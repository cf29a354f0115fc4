"""The order of cells and who waits for whom, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from co2l.search.queue import FINISHED, WAIT, CellQueue, Signal
from co2l.search.reports import Report
from co2l.search.space import Cell, Space, parse
from co2l.search.study import LOSSES, Record

RESULT = {"score": 50.0, "average": {"class_il": 50.0, "task_il": 50.0}, "matrix": {}}


def space_of(axes: dict[str, Any], **keys: Any) -> Space:
    settings = {name: value for name, value in {"E_0": 20, "E_t": 10}.items() if name not in axes}
    return parse({"benchmark": "seq_digits", "settings": settings, "axes": axes, **keys}, "space.yaml")


def queue_of(space: Space, record: Record | None = None, **options: Any) -> CellQueue:
    return CellQueue(space, record or Record.open(None, "s", space), **options)


def take(queue: CellQueue) -> Cell:
    cell = queue.next()
    assert not isinstance(cell, Signal)
    queue.started(cell)
    return cell


def finish(queue: CellQueue, cell: Cell) -> None:
    queue.finished(cell, RESULT, 1, 0, 1.0)


def drain(queue: CellQueue) -> list[Cell]:
    """One worker runs all that is left."""
    cells = []
    while queue.unfinished:
        cell = take(queue)
        cells.append(cell)
        finish(queue, cell)
    assert queue.next() is FINISHED
    return cells


def test_new_first_stages_come_first_and_others_wait_for_theirs() -> None:
    queue = queue_of(space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3]}))
    assert queue.unfinished == 6
    one, two = take(queue), take(queue)
    assert [one.values["eta"], two.values["eta"]] == [0.01, 0.02]
    assert queue.next() is WAIT
    queue.stage_ready(two)
    three = take(queue)
    assert three.values["eta"] == 0.02
    assert three.key != two.key
    finish(queue, one)  # its end is as good as its stage
    rest = [take(queue) for _ in range(3)]
    assert [cell.values["eta"] for cell in rest] == [0.01, 0.01, 0.02]
    assert queue.next() is WAIT
    assert queue.running == queue.unfinished == 5
    for cell in (two, three, *rest):
        finish(queue, cell)
    assert queue.next() is FINISHED


def test_seeds_do_not_share_a_first_stage() -> None:
    queue = queue_of(space_of({"kappa": [0.1, 0.2]}, seeds=[0, 1]))
    assert [take(queue).seed, take(queue).seed] == [0, 1]
    assert queue.next() is WAIT


def test_long_cells_come_before_short_ones() -> None:
    queue = queue_of(space_of({"eta": [0.01, 0.02], "E_t": [5, 50], "kappa": [0.1, 0.2]}))
    lengths = [cell.values["E_t"] for cell in drain(queue)]
    assert lengths == [50, 50, 50, 50, 5, 5, 5, 5]


def test_without_reuse_nobody_waits() -> None:
    queue = queue_of(space_of({"kappa": [0.1, 0.2, 0.3]}), reuse=False)
    assert len({take(queue).key for _ in range(3)}) == 3
    assert queue.next() is WAIT  # all run; none is left


def test_cells_with_the_same_chain_wait_for_all_of_it() -> None:
    queue = queue_of(space_of({"kappa": [0.1, 0.2], "probe_lr": [0.1, 1.0]}))  # the probe reads no state's past
    one = take(queue)
    queue.stage_ready(one)
    two = take(queue)
    assert two.values["kappa"] != one.values["kappa"]
    assert queue.next() is WAIT
    finish(queue, one)
    assert take(queue).values["kappa"] == one.values["kappa"]
    assert queue.next() is WAIT


def test_a_failed_owner_is_followed_by_the_next_who_waits() -> None:
    space = space_of({"kappa": [0.1, 0.2, 0.3]}, retries=1)
    queue = queue_of(space)
    one = take(queue)
    assert queue.failed(one, "lost") is True
    two = take(queue)
    assert two.key != one.key
    assert queue.next() is WAIT  # the first stage is in the making again, by one only
    queue.stage_ready(two)
    three, again = take(queue), take(queue)
    assert again.key == one.key  # after all others
    assert queue.failed(again, "lost again") is False
    assert queue.record.status(one) == "failed"
    assert queue.record.entries[one.key].reason == "lost again"
    finish(queue, two)
    finish(queue, three)
    assert queue.next() is FINISHED


def test_a_cell_that_lost_its_process_comes_again_after_the_others() -> None:
    queue = queue_of(space_of({"kappa": [0.1, 0.2]}, retries=0))
    one = take(queue)
    assert queue.lost(one, 0) is True
    two = take(queue)
    assert two.key != one.key  # who waited for the first stage makes it now
    assert queue.next() is WAIT
    finish(queue, two)
    for _ in range(LOSSES - 2):
        assert queue.lost(take(queue), 0) is True
    assert queue.lost(take(queue), 0) is False
    assert queue.record.status(one) == "failed"
    assert queue.next() is FINISHED


def test_all_cells_fail_and_the_search_ends() -> None:
    queue = queue_of(space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3]}, retries=2))
    attempts = 0
    while not isinstance(cell := queue.next(), Signal):
        queue.started(cell)
        queue.failed(cell, "broken")
        attempts += 1
    assert cell is FINISHED
    assert attempts == 6 * 3
    assert {entry.status for entry in queue.record.entries.values()} == {"failed"}


def test_a_cell_that_breaks_before_it_starts_counts_too() -> None:
    queue = queue_of(space_of({"kappa": [0.1]}, retries=0))
    cell = queue.next()
    assert isinstance(cell, Cell)
    assert queue.failed(cell, "no room") is False
    assert queue.next() is FINISHED


def test_pruned_and_interrupted_owners_leave_their_place() -> None:
    queue = queue_of(space_of({"kappa": [0.1, 0.2, 0.3]}, early_stop={"rungs": [1]}))
    one = take(queue)
    queue.interrupted(one)
    two = take(queue)
    assert two.key != one.key
    queue.stage_ready(two)
    queue.pruned(two, Report("task", 0, 5, 20, {"val/score": 1.0}))
    assert {take(queue).key, take(queue).key} == {cell.key for cell in queue.space.cells()} - {two.key}
    assert queue.unfinished == 2


def test_what_ended_is_not_handed_out_again(tmp_path: Path) -> None:
    space, url = space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2, 0.3]}), f"sqlite:///{tmp_path}/study.db"
    queue = queue_of(space, Record.open(url, "s", space))
    one, two = take(queue), take(queue)
    finish(queue, one)
    again = queue_of(space, Record.open(url, "s", space))  # two was running when the driver died
    assert again.unfinished == 5
    free = [take(again) for _ in range(3)]  # the stages of one's chain are stored; of two's nobody knows
    assert sorted(cell.values["eta"] for cell in free) == [0.01, 0.01, 0.02]  # type: ignore[type-var]
    assert again.next() is WAIT
    for cell in free:
        finish(again, cell)
    assert len(drain(again)) == 2
    assert two.key in again.record.finished()
    assert queue_of(space, Record.open(url, "s", space)).next() is FINISHED


AXES = {"eta": [0.01, 0.02, 0.05], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}


@pytest.mark.parametrize("algorithm", ["random", "tpe"])
def test_samples_are_distinct_and_come_with_all_their_cells(algorithm: str) -> None:
    selection = {"mean_over": ["buffer_size"]}
    space = space_of(AXES, algorithm=algorithm, samples=4, seeds=[0, 1], selection=selection)
    cells = drain(queue_of(space, seed=5))
    assert len(cells) == len({cell.key for cell in cells}) == 4 * 4
    points = {(cell.values["eta"], cell.values["kappa"]) for cell in cells}
    assert len(points) == 4


@pytest.mark.parametrize("algorithm", ["random", "tpe"])
def test_a_space_can_be_exhausted(algorithm: str) -> None:
    space = space_of(AXES, algorithm=algorithm, samples=500)
    cells = drain(queue_of(space))
    assert {cell.key for cell in cells} == {cell.key for cell in space.cells()}
    assert len(cells) == 12


@pytest.mark.parametrize("algorithm", ["random", "tpe"])
def test_a_stopped_search_continues_with_what_was_drawn(algorithm: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "buffer_size": [50, 100]}
    space = space_of(axes, algorithm=algorithm, samples=6, selection={"mean_over": ["buffer_size"]})
    undisturbed = [cell.key for cell in drain(queue_of(space, seed=9))]
    queue = queue_of(space, Record.open(url, "s", space), seed=9)
    for _ in range(5):
        finish(queue, take(queue))  # and dies in the middle of a sample
    record = Record.open(url, "s", space)
    drain(queue_of(space, record, seed=9))
    assert set(record.finished()) == set(undisturbed)
    assert len(record.finished()) == 12
    more = space.replace(samples=8)
    assert len(drain(queue_of(more, Record.open(url, "s", more), seed=9))) == 4


def test_tpe_does_not_draw_everything_while_a_stage_is_in_the_making() -> None:
    space = space_of({"kappa": [0.01 * i for i in range(1, 60)]}, algorithm="tpe", samples=40)
    queue = queue_of(space)
    one = take(queue)
    assert queue.next() is WAIT
    assert queue.next() is WAIT
    assert queue.unfinished == 40
    queue.stage_ready(one)
    assert isinstance(queue.next(), Cell)
