"""A setting may have another value in one task; values that are all the same are the plain run, bit for bit."""

from __future__ import annotations

import itertools
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import finish, short, start

from co2l.data.streams import Split, open_stream
from co2l.errors import Co2lError
from co2l.learning.config import RunConfig
from co2l.learning.events import RunDone, StepDone
from co2l.learning.methods import configure
from co2l.learning.store import Store

BY_CLASS = Split("search", by="class")
EVERY_TASK = {"eta": range(1, 6), "kappa": range(2, 6), "E_0": [1], "E_t": range(2, 6), "buffer_size": range(2, 6)}


def test_one_value_for_every_task_is_the_plain_run() -> None:
    values: dict[str, Any] = {"eta": 0.03, "kappa": 0.3, "E_0": 3, "E_t": 4, "buffer_size": 60}
    plain = configure("seq_digits", "co2l", values)
    by_task = {f"{name}/{task}": values[name] for name, tasks in EVERY_TASK.items() for task in tasks}
    assert configure("seq_digits", "co2l", by_task) == plain
    others = configure("seq_digits", "co2l", {"eta": 0.7, "kappa": 0.9, "E_t": 7, **by_task})
    assert (others, others.key, others.stage_keys(5)) == (plain, plain.key, plain.stage_keys(5))


values = st.sampled_from([0.1, 0.2, 0.5])


@given(st.tuples(*[values] * 5), st.tuples(*[values] * 4), st.tuples(*[values] * 5), st.tuples(*[values] * 4))
def test_runs_share_the_stages_up_to_the_first_task_that_differs(
    etas: tuple[float, ...], kappas: tuple[float, ...], other_etas: tuple[float, ...], other_kappas: tuple[float, ...]
) -> None:
    def config(etas: tuple[float, ...], kappas: tuple[float, ...]) -> RunConfig:
        path = {f"eta/{t}": eta for t, eta in enumerate(etas, 1)} | {f"kappa/{t}": k for t, k in enumerate(kappas, 2)}
        return configure("seq_digits", "co2l", path)

    one, other = config(etas, kappas), config(other_etas, other_kappas)
    read = [list(zip(etas, (None, *kappas), strict=True)), list(zip(other_etas, (None, *other_kappas), strict=True))]
    for t in range(5):
        assert (one.stage_key(t) == other.stage_key(t)) is (read[0][: t + 1] == read[1][: t + 1])
        assert (one.settings_of(t).eta, one.value(f"eta/{t + 1}")) == (etas[t], etas[t])
    assert (one.key == other.key) is (read[0] == read[1]) is (one == other)
    assert configure(**{**one.as_dict(), "split": one.split}) == one  # as it is written, so it is read


def test_epochs_are_those_of_each_task() -> None:
    given = {"E_0": 3, "E_t": 4, "E_t/3": 7}
    assert configure("seq_digits", "co2l", given).epochs == [3, 4, 7, 4, 4]
    assert configure("seq_digits", "co2l", given, split=BY_CLASS, until=3).epochs == [3, 4, 7]
    assert configure("seq_digits", "er", {"epochs": 2, "epochs/1": 5}).epochs == [5, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder/2", "mnist_mlp", "encoder/2: encoder is the same for all tasks"),
        ("class_order/2", 1, "class_order/2: class_order is the same for all tasks"),
        ("objective/3", "cross_entropy", "objective/3: objective is the same for all tasks"),
        ("probe_lr/2", 0.1, "probe_lr/2: probe_lr is the same for all tasks"),
        ("kappa/1", 0.1, "kappa/1: task 1 does not read kappa"),
        ("E_0/2", 3, "E_0/2: only task 1 reads E_0"),
        ("kappa/6", 0.1, "kappa/6: there are 5 tasks"),
        ("kapa/2", 0.1, "unknown setting 'kapa'; did you mean 'kappa'?"),
        ("kappa/x", 0.1, "unknown setting 'kappa/x'"),
        ("kappa/2", -1.0, "kappa: input should be greater than 0"),
        ("buffer_size/4", 7, "buffer_size=7 is smaller than the 10 classes"),
    ],
)
def test_what_a_task_cannot_have(name: str, value: Any, message: str) -> None:
    with pytest.raises(Co2lError) as caught:
        configure("seq_digits", "co2l", {name: value})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


PATH = {"kappa/3": 0.05, "eta/4": 0.01, "buffer_size/4": 40, "E_t/5": 2, "distillation/2": "none"}


def test_a_path_left_and_resumed_is_the_same(tmp_path: Path) -> None:
    config = short(**PATH)
    expected, trained = finish(config, tmp_path / "through")
    assert trained == [2, 1, 1, 1, 2]
    steps = 0
    for leave_after in itertools.cycle([3, 5, 2]):
        events = start(config, tmp_path / "left")
        for event in events:
            steps += isinstance(event, StepDone)
            leave_after -= isinstance(event, StepDone)
            if isinstance(event, RunDone):
                assert event.result == expected
                return
            if leave_after == 0:
                events.close()
                break
        assert steps < 500


def test_a_path_goes_on_where_another_parts_from_it(tmp_path: Path) -> None:
    """With stages of plain runs from the store: each task learned with the settings of that task, by themselves."""
    alone, _ = finish(short(kappa=0.2, **{"kappa/3": 0.05, "kappa/4": 0.05, "kappa/5": 0.05}), tmp_path / "alone")
    finish(short(kappa=0.2), tmp_path / "shared", retain=lambda _: True)
    again, trained = finish(short(kappa=0.05, **{"kappa/2": 0.2}), tmp_path / "shared")
    assert (again, trained) == (alone, [0, 0, 1, 1, 1])
    plain, _ = finish(short(kappa=0.05), tmp_path / "plain")
    assert plain.weights != alone.weights


@pytest.mark.parametrize("method", ["er", "derpp", "gem", "agem", "icarl", "fdr", "gss", "hal"])
def test_every_method_goes_on_with_other_settings(method: str, tmp_path: Path) -> None:
    """From the store as in one process."""
    config = short(method, **{"eta/3": 0.02, "buffer_size/3": 30})
    expected, _ = finish(config, tmp_path / "through")
    finish(short(method), tmp_path / "shared")
    assert finish(config, tmp_path / "shared")[0] == expected
    assert expected.weights != finish(short(method), tmp_path / "plain")[0].weights


def test_a_run_of_the_first_tasks_is_the_beginning_of_the_whole(tmp_path: Path) -> None:
    whole, first = short(split=BY_CLASS), short(split=BY_CLASS, until=2)
    assert first.stage_keys(2) == whole.stage_keys(2)
    assert first.key != whole.key == short(split=BY_CLASS, until=5).key
    result, trained = finish(first, tmp_path)
    assert trained == [2, 1]
    assert [len(row) for row in result.matrix["class_il"]] == [1, 2]
    through, trained = finish(whole, tmp_path)
    assert trained == [0, 0, 1, 1, 1]
    assert {name: rows[:2] for name, rows in through.matrix.items()} == result.matrix
    assert configure(**{**first.as_dict(), "split": first.split}) == first


def test_its_stream_has_no_later_task(tmp_path: Path) -> None:
    stream = configure("seq_digits", "er", {"class_order": 3}, split=BY_CLASS, until=2).open_stream(tmp_path)
    whole = configure("seq_digits", "er", {"class_order": 3}, split=BY_CLASS).open_stream(tmp_path)
    assert len(stream) == 2
    for t in range(2):
        for part in ("train", "held_out"):
            one, other = getattr(stream, part)(t), getattr(whole, part)(t)
            assert one.images.equal(other.images)
            assert one.labels.equal(other.labels)
        assert stream.fingerprint_of(t) == whole.fingerprint_of(t)
    assert sorted(stream.revisit(0).pool.shape[:1]) < sorted(whole.revisit(0).pool.shape[:1])
    for door in ("train", "held_out", "revisit", "sizes", "classes"):
        with pytest.raises(IndexError):
            getattr(stream, door)(2)


@pytest.mark.parametrize(
    ("method", "settings", "split", "until", "message"),
    [
        ("er", {}, Split("search"), 2, "the validation examples are drawn from those of all tasks"),
        ("er", {}, BY_CLASS, 6, "seq_digits has 5 tasks, not 6"),
        ("er", {}, BY_CLASS, 0, "seq_digits has 5 tasks, not 0"),
        ("er", {"eta/3": 0.1}, BY_CLASS, 2, "eta/3: there are 2 tasks"),
        ("joint", {}, BY_CLASS, 2, "joint learns all tasks at once"),
        ("co2l", {"probe_data": "all"}, BY_CLASS, 2, "probe_data=all looks at later tasks"),
    ],
)
def test_what_a_run_of_the_first_tasks_cannot_be(
    method: str, settings: dict[str, Any], split: Split, until: int, message: str
) -> None:
    with pytest.raises(Co2lError, match=message):
        configure("seq_digits", method, settings, split=split, until=until)


def test_drawn_by_class_every_class_gives_its_share() -> None:
    stream = open_stream("seq_digits", split=Split("search", 0.25, by="class"), seed=0, data=Path())
    for t in range(5):
        train, held = stream.train(t), stream.held_out(t)
        for label in stream.classes(t):
            mine, theirs = int((train.labels == label).sum()), int((held.labels == label).sum())
            assert theirs == round((mine + theirs) / 4)
        rows = {tuple(image.flatten().tolist()) for image in held.images}
        assert len(rows & {tuple(image.flatten().tolist()) for image in train.images}) < 3  # two digits may be the same


def test_states_of_runs_of_the_first_tasks_are_found_by_others(tmp_path: Path) -> None:
    """The store's folder depends on the data of the tasks so far alone."""
    first = short("er", split=BY_CLASS, until=2)
    finish(first, tmp_path, retain=lambda _: True)
    states = {file.key for file in Store(str(tmp_path)).contents() if file.is_ours}
    assert set(first.stage_keys(2)) <= states


def test_later_classes_of_a_file_that_holds_all_are_dropped(own_data: Path) -> None:
    """Noise instead of their pixels changes nothing up to the last task that is learned."""
    config = configure("seq_cifar10", "er", {"class_order": 2}, split=Split("search", 0.25, by="class"), until=2)
    before = config.open_stream(own_data)
    assert before.revisit(0).pool.shape[0] < 200
    kept = set(config.spec.class_order[:4])
    folder = own_data / "cifar-10-batches-py"
    batches = {path.name: pickle.loads(path.read_bytes()) for path in folder.glob("data_batch_*")}
    shutil.rmtree(own_data / "co2l-cache")
    folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    folder.mkdir()
    for name, batch in batches.items():
        later = np.array([label not in kept for label in batch["labels"]])
        batch["data"][later] = np.random.default_rng(1).integers(0, 256, (int(later.sum()), 3072), dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps(batch, protocol=4))
    after = config.open_stream(own_data)
    whole = configure("seq_cifar10", "er", {"class_order": 2}, split=config.split).open_stream(own_data)
    for t in range(2):
        assert after.fingerprint_of(t) == before.fingerprint_of(t) == whole.fingerprint_of(t)
        for part in ("train", "held_out"):
            one, other = getattr(before, part)(t), getattr(after, part)(t)
            assert one.images.equal(other.images)
            assert one.labels.equal(other.labels)
