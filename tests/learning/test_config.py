"""Settings are checked one by one with a clear line; a stage's key holds what the stage reads, and no more."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.config import STREAM, VERSION, Scope, Settings, parse_assignments
from co2l.learning.methods import METHODS, configure
from co2l.learning.methods.co2l import Co2L, Co2LSettings
from co2l.testing.reading import reads


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kapa": 0.1}, "unknown setting 'kapa'; did you mean 'kappa'?"),
        ({"tau": 0}, "tau: input should be greater than 0, got 0"),
        ({"tau": -1.0}, "tau: input should be greater than 0, got -1.0"),
        ({"eta": "fast"}, "eta: input should be a valid number"),
        ({"eta": float("nan")}, "eta: input should be a finite number"),
        ({"E_0": 2.5}, "E_0: input should be a valid integer"),
        ({"distillation": "idr"}, "distillation: input should be 'ird'"),
        ({"buffer_size": 7}, "buffer_size=7 is smaller than the 10 classes of seq_digits; use at least 10"),
        ({"buffer_size": -5}, "buffer_size: input should be greater than or equal to 0"),
        ({"buffer_size": "unlimitted"}, "buffer_size: input should be"),
        ({"batch_size": 1}, "batch_size: input should be greater than or equal to 2"),
        ({"encoder": "resnet"}, "unknown encoder 'resnet'; did you mean 'resnet18'?"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Co2lError) as caught:
        configure("seq_digits", "co2l", settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_benchmark_and_method() -> None:
    with pytest.raises(Co2lError, match="unknown benchmark 'seq_digit'; did you mean 'seq_digits'"):
        configure("seq_digit", "co2l")
    with pytest.raises(Co2lError, match="unknown method 'colt'; did you mean 'co2l'"):
        configure("seq_digits", "colt")


def test_assignments() -> None:
    assert parse_assignments(["eta=1e-3", "replay=false", "buffer_size=unlimited", "E_t=3"]) == {
        "eta": 0.001,
        "replay": False,
        "buffer_size": "unlimited",
        "E_t": 3,
    }
    for bad in ("eta", "=3", "eta=[1"):
        with pytest.raises(Co2lError):
            parse_assignments([bad])


def test_the_first_stage_is_shared_by_what_only_later_stages_read() -> None:
    base = configure("seq_cifar10", "co2l")
    others = [
        {"kappa": 0.1}, {"kappa_star": 0.1}, {"E_t": 50}, {"buffer_size": 500}, {"distill_power": 0.5},
        {"distillation": "seed"}, {"supcon": "symmetric"}, {"replay": False}, {"probe_lr": 0.5},
    ]  # fmt: skip
    for settings in others:
        other = configure("seq_cifar10", "co2l", settings)
        assert other.stage_key(0) == base.stage_key(0), settings
        assert (other.stage_key(1) == base.stage_key(1)) == ("probe_lr" in settings), settings
        assert other.key != base.key
    for settings in ({"eta": 0.1}, {"tau": 0.1}, {"batch_size": 256}, {"E_0": 400}, {"width": 32}):
        assert configure("seq_cifar10", "co2l", settings).stage_key(0) != base.stage_key(0), settings
    assert configure("seq_cifar10", "co2l", seed=1).stage_key(0) != base.stage_key(0)
    for split in (Split("search", seed=1), Split("search", fraction=0.2), Split("evaluation")):
        assert configure("seq_cifar10", "co2l", split=split).stage_key(0) != base.stage_key(0)


def digest(**parts: Any) -> str:
    """A key, computed anew."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def test_the_benchmarks_own_stream_is_in_no_key() -> None:
    """Keys from before there were settings of the stream stay what they are."""
    for name, tasks in (("seq_digits", 5), ("r_digits", 5)):
        config = configure(name, "er", seed=3)
        split = {"kind": "search", "fraction": 0.1, "seed": 0}
        described = {"benchmark": name, "method": "er", "seed": 3, "split": split}
        settings = {each: getattr(config.settings, each) for each in type(config.settings).model_fields}
        settings = {each: value for each, value in settings.items() if each not in ("tasks", "class_order")}
        assert config.key == digest(version=VERSION, settings=settings, **described)
        read = {each: value for each, value in settings.items() if each != "matrix_probe"}
        key = digest(version=VERSION, **described)
        for t in range(tasks):
            key = digest(parent=key, stage=t, settings=read)
            assert config.stage_key(t) == key
        own = configure(name, "er", {"tasks": tasks, "class_order": "fixed"}, seed=3)
        assert (own.key, own.stage_keys(tasks)) == (config.key, config.stage_keys(tasks))


orders = st.sampled_from(["fixed", "seed", 0, 1, 7, "1,0,2,3,4,5,6,7,8,9", "9,8,7,6,5,4,3,2,1,0"])


@given(st.sampled_from(["co2l", "er", "icarl", "joint"]), st.sampled_from([2, 5, 10]), orders, st.integers(0, 2))
def test_another_stream_is_another_key_in_every_stage(method: str, tasks: int, order: int | str, seed: int) -> None:
    base = configure("seq_digits", method, seed=seed)
    other = configure("seq_digits", method, {"tasks": tasks, "class_order": order}, seed=seed)
    same = (tasks, order) == (5, "fixed")
    assert (other.key == base.key) is same
    assert [a == b for a, b in zip(base.stage_keys(5), other.stage_keys(tasks), strict=False)] == [same] * min(tasks, 5)
    assert (other.row_key(1, "own") == base.row_key(1, "own")) is same
    assert configure(**{**other.as_dict(), "split": other.split}) == other  # as it is written, so it is read


def test_two_different_streams_have_different_keys() -> None:
    streams = list(itertools.product([2, 5, 10], ["fixed", "seed", 0, 1, "9,8,7,6,5,4,3,2,1,0"]))
    configs = [configure("seq_digits", "er", {"tasks": tasks, "class_order": order}) for tasks, order in streams]
    assert len({config.stage_key(0) for config in configs}) == len({config.key for config in configs}) == len(streams)


@pytest.mark.parametrize(
    ("benchmark", "settings", "message"),
    [
        (
            "seq_digits",
            {"tasks": 3},
            "tasks: the 10 classes of seq_digits cannot be cut into 3 equal tasks; use 2, 5, 10",
        ),
        ("seq_digits", {"tasks": 1}, "tasks: input should be greater than or equal to 2, got 1"),
        (
            "seq_digits",
            {"class_order": "sorted"},
            "class_order: no order of classes, got 'sorted'; class_order is: the",
        ),
        ("seq_digits", {"class_order": -1}, "class_order: no order of classes, got -1"),
        ("seq_digits", {"class_order": [0, 1, 2]}, "class_order: not an order of the 10 classes, got 0,1,2; list each"),
        ("seq_digits", {"class_order": [0] * 10}, "class_order: not an order of the 10 classes"),
        ("r_digits", {"class_order": 1}, "class_order: every task of r_digits has all classes, got 1; leave it out"),
        ("seq_digits", {"tasks": 2, "buffer_size": 9}, "buffer_size=9 is smaller than the 10 classes of seq_digits"),
    ],
)
def test_bad_streams(benchmark: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Co2lError) as caught:
        configure(benchmark, "co2l", settings, where="here")
    assert f"here: {message}" in str(caught.value)


def test_a_listed_order_is_one_word() -> None:
    listed = configure("seq_digits", "er", {"class_order": list(range(9, -1, -1))})
    assert listed.settings.class_order == "9,8,7,6,5,4,3,2,1,0"
    assert listed == configure("seq_digits", "er", parse_assignments(["class_order=9,8,7,6,5,4,3,2,1,0"]))


def test_a_setting_added_later_leaves_the_keys_of_what_was_stored_before() -> None:
    """The keys as they were before these settings existed; changed, each has a key of its own."""
    before = {
        "co2l": ("e7b49c73", "e91596f5", "63b3e9a1", "ac6bd2a0"),
        "hal": ("5b74589e", "cecc8fe8", "cf1fbdb7", "4b3687ee"),
        "icarl": ("339fb5b7", "efff4889", "e4860cfa", "7de08870"),
    }
    for method, expected in before.items():
        found = configure("seq_cifar10", method)
        keys = (found.stage_key(0), found.stage_key(4), found.row_key(4, "paper"), found.key)
        assert tuple(key[:8] for key in keys) == expected
    plain, hal = configure("r_digits", "co2l"), configure("seq_digits", "hal")
    for settings in ({"probe_views": "buffered"}, {"probe_weight_decay": 0.1}, {"probe_rotation": 9.0}):
        changed = configure("r_digits", "co2l", settings)
        assert changed.stage_key(4) == plain.stage_key(4)
        assert changed.row_key(4, "paper") != plain.row_key(4, "paper")
    changed = configure("r_digits", "co2l", {"anchors": "released"})
    assert changed.stage_key(0) == plain.stage_key(0)
    assert changed.stage_key(1) != plain.stage_key(1)
    assert configure("seq_digits", "hal", {"buffer_policy": "reservoir"}).stage_key(0) != hal.stage_key(0)
    assert configure("seq_digits", "hal", {"anchor_batchnorm": "batch"}).stage_key(1) != hal.stage_key(1)


def test_every_setting_says_who_reads_it() -> None:
    class Undeclared(Settings):
        forgotten: int = 3

    for kind in METHODS.values():
        for name in kind.settings_type.model_fields:
            assert isinstance(kind.settings_type.scope(name), Scope)
    with pytest.raises(TypeError, match="forgotten"):
        Undeclared.scope("forgotten")


VARIANTS: list[dict[str, Any]] = [
    {},
    {"distillation": "seed"},
    {"distillation": "mse_embedding"},
    {"distillation": "mse_projection", "supcon": "symmetric"},
    {"distill_power": 0.0, "replay": False},
    {"unit_sphere": False, "sampling": "independent", "eta": 1e-5},
    {"buffer_policy": "reservoir", "matrix_probe": "paper", "warmup_epochs": 1},
]


def test_every_stage_reads_only_what_its_key_holds(tmp_path: Path) -> None:
    everything: set[str] = set()
    for i, settings in enumerate(VARIANTS):
        recording = reads("co2l", tmp_path / str(i), **settings)
        assert recording.undeclared() == {}
        assert {0, 1, 2, 3, 4, "probe"} == set(recording.read)
        everything |= set().union(*recording.read.values())
    # nor is there a setting that nothing reads (the run itself reads which probes to use, the stream its own)
    assert everything | {"matrix_probe", "probe", *STREAM} == set(Co2LSettings.model_fields)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "co2l"])
def test_a_baseline_has_no_setting_that_nothing_reads(name: str, tmp_path: Path) -> None:
    recording = reads(name, tmp_path)
    read = set().union(*recording.read.values())
    # the run itself asks which probe to use, and the stream reads its own
    assert read | {"matrix_probe", *STREAM} >= set(METHODS[name].settings_type.model_fields)


def test_a_setting_that_is_read_but_not_in_the_key_is_noticed(tmp_path: Path) -> None:
    class Careless(Co2L):
        def begin_task(self, t: int, task: Any) -> None:
            super().begin_task(t, task)
            if t == 0:
                self.kappa = self.settings.kappa

    assert reads("co2l", tmp_path, Careless).undeclared() == {0: {"kappa"}}
