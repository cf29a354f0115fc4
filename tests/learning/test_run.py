"""A run gives the same bits whether it went through, was left and resumed, or took stages from the store."""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import few_digits, finish, short, start

from co2l.errors import Co2lError, OutsideError
from co2l.learning.events import EpochDone, RunDone, StateSaved, StepDone, TaskDone
from co2l.learning.methods.co2l import Co2L
from co2l.learning.store import Store


def test_twice_the_same_bits_and_the_second_time_nothing_is_trained(tmp_path: Path) -> None:
    first, trained = finish(short(), tmp_path / "a")
    again, trained_again = finish(short(), tmp_path / "a")
    other, _ = finish(short(), tmp_path / "b")
    assert trained == [2, 1, 1, 1, 1]
    assert trained_again == [0] * 5
    assert first == again == other


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    assert finish(short(seed=1), tmp_path)[0].weights != finish(short(seed=2), tmp_path)[0].weights


@pytest.mark.parametrize("benchmark", ["seq_digits", "r_digits"])
def test_left_at_random_steps_and_resumed(tmp_path: Path, benchmark: str) -> None:
    """Closing the run between two steps, again and again, changes nothing."""
    config = short(name=benchmark)
    expected, _ = finish(config, tmp_path / "through")
    rng = random.Random(seed := 0)
    print("random.Random seed:", seed)
    for _ in range(200):
        events = start(config, tmp_path / "left")
        leave_after = rng.randint(1, 12)
        for event in events:
            leave_after -= isinstance(event, StepDone)
            if isinstance(event, RunDone):
                assert event.result == expected
                return
            if leave_after == 0:
                events.close()
                break
    pytest.fail("the run never ended")


def test_left_between_any_two_events_no_step_is_done_twice(tmp_path: Path) -> None:
    """One that was left just after an epoch went back to its last state, up to a minute of training."""
    config = short()
    expected, _ = finish(config, tmp_path / "through")
    steps = sum(isinstance(event, StepDone) for event in start(config, tmp_path / "counted"))
    done = 0
    for turn in range(2 * steps):
        events = start(config, tmp_path / "left")
        for event in events:
            done += isinstance(event, StepDone)
            if isinstance(event, RunDone):
                assert event.result == expected
                assert done == steps
                return
            if isinstance(event, EpochDone if turn % 2 else StepDone):
                events.close()
                break
    pytest.fail("the run never ended")


def test_every_saved_state_is_announced_after_it_is_there(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []
    for event in start(short(), tmp_path, save_every=0.0):
        if isinstance(event, StateSaved):
            partial = next(iter(tmp_path.glob("*/*.partial")), None)
            if partial is not None:
                state = store.load_state(f"{partial.parent.name}/{partial.stem}", partial=True)
                assert state is not None
                assert state["epoch"] == event.epoch + 1
            seen.append((event.task, event.epoch))
    assert seen == sorted(seen)
    whole = [(0, 2), (1, 1), (2, 1), (3, 1), (4, 1)]
    assert [each for each in dict.fromkeys(seen) if each in whole] == whole


class SlowStore(Store):
    """Takes the middle of a stage only when it is allowed to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.allowed, self.refuses = threading.Event(), False

    def save_state(self, key: str, state: Mapping[str, Any], *, partial: bool = False) -> None:
        if partial:
            assert self.allowed.wait(60)
            if self.refuses:
                raise OutsideError("the disk is full")
        super().save_state(key, state, partial=partial)


def test_steps_do_not_wait_for_a_slow_store(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    events = start(short(), store, save_every=0.0)
    steps = [event for event in itertools.islice(events, 5) if isinstance(event, StepDone)]
    assert len(steps) >= 3
    assert not list(tmp_path.rglob("*.partial"))
    store.allowed.set()
    events.close()  # now the latest state is saved, after the one that was on its way
    partial = next(tmp_path.rglob("*.partial"))
    state = store.load_state(f"{partial.parent.name}/{partial.stem}", partial=True)
    assert state is not None
    assert state["step"] == steps[-1].step
    result, _ = finish(short(), tmp_path)
    expected, _ = finish(short(), tmp_path / "through")
    assert result == expected


def test_a_store_that_refuses_in_the_background_ends_the_run(tmp_path: Path) -> None:
    store = SlowStore(tmp_path)
    store.refuses = True
    store.allowed.set()
    with pytest.raises(OutsideError, match="the disk is full"):
        list(start(short(), store, save_every=0.0))


def test_saved_in_the_middle_and_lost_without_goodbye(tmp_path: Path) -> None:
    """As after SIGKILL: the run goes on from the last periodic state, and steps after it are done again."""
    config = short()
    expected, _ = finish(config, tmp_path / "through")
    events = start(config, tmp_path / "killed", save_every=0.0)  # alive to the end: closing it would save
    for _ in range(7):
        next(events)
    result, _ = finish(config, tmp_path / "killed")
    assert result == expected
    partials = list((tmp_path / "killed").rglob("*.partial"))
    assert partials == []


def test_epoch_losses_do_not_depend_on_interruptions(tmp_path: Path) -> None:
    def losses(root: Path, every: int) -> list[dict[str, float]]:
        found: dict[tuple[int, int], Any] = {}
        done = False
        while not done:
            events = start(short(), root)
            for count, event in enumerate(events, start=1):
                if isinstance(event, EpochDone):
                    found[event.task, event.epoch] = dict(event.losses)
                if isinstance(event, RunDone):
                    done = True
                elif isinstance(event, StepDone) and count >= every:
                    events.close()
                    break
        return [found[key] for key in sorted(found)]

    assert losses(tmp_path / "a", 10**9) == losses(tmp_path / "b", 3)


@pytest.mark.parametrize(
    "other", [{"kappa": 0.3}, {"kappa_star": 0.07}, {"E_t": 2}, {"buffer_size": 40}, {"supcon": "symmetric"}]
)
def test_first_stage_from_the_store_of_another_run(tmp_path: Path, other: dict[str, Any]) -> None:
    expected, _ = finish(short(), tmp_path / "alone")
    finish(short(**other), tmp_path / "shared")
    result, trained = finish(short(), tmp_path / "shared")
    assert trained == [0, 1, 1, 1, 1]
    assert result == expected


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_state_is_computed_again(tmp_path: Path, damage: str) -> None:
    expected, _ = finish(short(), tmp_path)
    for path in tmp_path.rglob("*.json"):
        path.unlink()  # else the answer needs no state at all
    for path in tmp_path.rglob("*.state"):
        content = bytearray(path.read_bytes())
        if damage == "truncate":
            del content[len(content) // 2 :]
        elif damage == "flip":
            content[len(content) // 2] ^= 1
        else:
            content.clear()
        path.write_bytes(bytes(content))
    result, trained = finish(short(), tmp_path)
    assert result == expected
    assert sum(trained) == 6


def test_states_that_nobody_wants_are_deleted_and_the_result_stays(tmp_path: Path) -> None:
    expected, _ = finish(short(), tmp_path / "all")
    config = short()
    first = config.stage_key(0)
    result, _ = finish(config, tmp_path / "few", retain=lambda key: key == first)
    assert result == expected
    assert [path.stem for path in (tmp_path / "few").rglob("*.state")] == [first]
    again, trained = finish(config, tmp_path / "few")
    assert (again, trained) == (expected, [0] * 5)


def test_without_a_matrix_the_final_accuracy_is_the_same(tmp_path: Path) -> None:
    with_matrix, _ = finish(short(), tmp_path / "a")
    without, trained = finish(short(matrix_probe="none"), tmp_path / "b")
    assert without.matrix == {}
    assert (without.final, without.weights) == (with_matrix.final, with_matrix.weights)
    assert trained == [2, 1, 1, 1, 1]


def test_another_probe_reuses_every_stage(tmp_path: Path) -> None:
    first, _ = finish(short(), tmp_path)
    second, trained = finish(short(probe_epochs=4), tmp_path)
    assert trained == [0] * 5
    assert second.weights == first.weights


def test_a_loss_that_is_not_a_number_ends_the_run_and_keeps_what_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Co2L.step

    def step(self: Co2L, *args: Any) -> dict[str, torch.Tensor]:
        losses = honest(self, *args)
        return {name: loss * (float("nan") if self.t == 2 else 1) for name, loss in losses.items()}

    monkeypatch.setattr(Co2L, "step", step)
    with pytest.raises(Co2lError, match=r"task 3, epoch 1: the supcon loss became nan; lower eta"):
        finish(short(), tmp_path)
    monkeypatch.setattr(Co2L, "step", honest)
    assert finish(short(), tmp_path)[1] == [0, 0, 1, 1, 1]


def test_a_batch_larger_than_the_data(tmp_path: Path) -> None:
    with pytest.raises(Co2lError, match="batch_size=5000 is larger than the first task"):
        finish(short(batch_size=5000), tmp_path)


def test_the_first_task_has_no_past_and_every_later_one_distils(tmp_path: Path) -> None:
    names = {event.task: set(event.losses) for event in start(short(), tmp_path) if isinstance(event, EpochDone)}
    assert names == {0: {"supcon"}, **{t: {"supcon", "distill"} for t in range(1, 5)}}


def test_the_matrix_is_lower_triangular_and_ends_in_every_scenario(tmp_path: Path) -> None:
    result, _ = finish(short(), tmp_path)
    assert {name: [len(row) for row in matrix] for name, matrix in result.matrix.items()} == {
        "class_il": [1, 2, 3, 4, 5],
        "task_il": [1, 2, 3, 4, 5],
    }
    rows = [event.row for event in start(short(), tmp_path) if isinstance(event, TaskDone)]
    assert [row["class_il"] for row in rows if row] == list(result.matrix["class_il"])


def test_the_store_may_be_a_url() -> None:
    root = "memory://run-test"
    first, _ = finish(short(), root)
    assert finish(short(), root)[1] == [0] * 5
    assert first.weights
    assert Store(root).root == root


def test_a_probe_may_see_the_tasks_seen_or_all(tmp_path: Path) -> None:
    """Fig. 3: the stages are the same; with all tasks' examples the probe is evaluated on those to come too."""
    alone = {"replay": False, "distillation": "none", "batch_size": 64}
    _, trained = finish(short(**alone), tmp_path, few_digits(each=140))
    assert sum(trained) == 2 + 4
    seen, again = finish(short(**alone, probe_data="seen"), tmp_path, few_digits(each=140))
    every, _ = finish(short(**alone, probe_data="all"), tmp_path, few_digits(each=140))
    assert sum(again) == 0
    assert [len(row) for row in seen.matrix["class_il"]] == [1, 2, 3, 4, 5]
    assert [len(row) for row in every.matrix["class_il"]] == [5] * 5
    assert seen.final == every.final  # after the last task both have seen everything
    assert seen.matrix["class_il"][0][0] > every.matrix["class_il"][0][0]  # among two classes, and among ten


def test_encoder_and_classifier_can_be_learned_jointly(tmp_path: Path) -> None:
    alone = {"replay": False, "distillation": "none", "objective": "cross_entropy"}
    happened = start(short(**alone, E_0=8), tmp_path / "a", few_digits(each=120))
    losses = [event.losses for event in happened if isinstance(event, EpochDone)]
    assert {name for each in losses for name in each} == {"cross_entropy"}
    assert losses[7]["cross_entropy"] < math.log(2) < losses[0]["cross_entropy"]  # better than a guess of two classes
    with pytest.raises(Co2lError, match=r"distillation=ird needs the projector.*set distillation=none"):
        short(objective="cross_entropy")
