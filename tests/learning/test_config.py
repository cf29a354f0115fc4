"""Settings are checked one by one with a clear line; a stage's key holds what the stage reads, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from small_runs import finish, short

from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning import methods
from co2l.learning.config import Scope, Settings, parse_assignments
from co2l.learning.methods import METHODS, configure
from co2l.learning.methods.co2l import Co2L, Co2LSettings


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


def test_every_setting_says_who_reads_it() -> None:
    class Undeclared(Settings):
        forgotten: int = 3

    for kind in METHODS.values():
        for name in kind.settings_type.model_fields:
            assert isinstance(kind.settings_type.scope(name), Scope)
    with pytest.raises(TypeError, match="forgotten"):
        Undeclared.scope("forgotten")


class Recording:
    """Settings that note which of them are read while `stage` is set."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.stage: int | str | None = None
        self.read: dict[int | str, set[str]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in type(self._settings).model_fields and self.stage is not None:
            self.read.setdefault(self.stage, set()).add(name)
        return getattr(self._settings, name)


def watched(method: type) -> type:
    """The method, telling its settings which stage every call belongs to."""

    class Watched(method):  # type: ignore[misc]
        def __init__(self, settings: Recording, *args: Any) -> None:
            settings.stage = 0
            super().__init__(settings, *args)
            settings.stage = None

    def attributed(name: str, stage: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.settings.stage = stage(self, *args)
            try:
                return getattr(super(Watched, self), name)(*args, **kwargs)
            finally:
                self.settings.stage = None

        return call

    def begin(self: Any, t: int, *_: Any) -> int:
        self.now = t
        return t

    Watched.schedule = attributed("schedule", lambda _self, t: t)
    Watched.begin_task = attributed("begin_task", begin)
    Watched.draw = attributed("draw", lambda self, *_: self.now)
    Watched.step = attributed("step", lambda self, *_: self.now)
    # what is kept of task t belongs to the stage that uses it: that is why buffers may differ after one first stage
    Watched.end_task = attributed("end_task", lambda _self, t, *_: t + 1)
    Watched.classifier = attributed("classifier", lambda *_: "probe")
    return Watched


VARIANTS: list[dict[str, Any]] = [
    {},
    {"distillation": "seed"},
    {"distillation": "mse_embedding"},
    {"distillation": "mse_projection", "supcon": "symmetric"},
    {"distill_power": 0.0, "replay": False},
    {"unit_sphere": False, "sampling": "independent", "eta": 1e-5},
    {"buffer_policy": "reservoir", "matrix_probe": "paper", "warmup_epochs": 1},
]


def reads(
    method: type, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, name: str = "co2l", **settings: Any
) -> Recording:
    monkeypatch.setitem(methods.METHODS, name, watched(method))
    config = short(name, **settings)
    recording = Recording(config.settings)
    object.__setattr__(config, "settings", recording)
    finish(config, tmp_path)
    return recording


def undeclared(recording: Recording) -> dict[int | str, set[str]]:
    """What was read by a stage, or by the probe after it, and is not in the key."""
    settings = recording._settings
    found = {}
    for stage, names in recording.read.items():
        keyed = settings.within({Scope.PROBE, Scope.EVERY}) if stage == "probe" else settings.read_by_stage(stage)
        found[stage] = names - set(keyed)
    return {stage: names for stage, names in found.items() if names}


def test_every_stage_reads_only_what_its_key_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    everything: set[str] = set()
    for i, settings in enumerate(VARIANTS):
        recording = reads(Co2L, monkeypatch, tmp_path / str(i), **settings)
        assert undeclared(recording) == {}
        assert {0, 1, 2, 3, 4, "probe"} == set(recording.read)
        everything |= set().union(*recording.read.values())
    # nor is there a setting that nothing reads (the run itself reads which probes to use)
    assert everything | {"matrix_probe", "probe"} == set(Co2LSettings.model_fields)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "co2l"])
def test_every_stage_of_a_baseline_reads_only_what_its_key_holds(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    recording = reads(METHODS[name], monkeypatch, tmp_path, name)
    assert undeclared(recording) == {}
    read = set().union(*recording.read.values())
    # nor is there a setting that nothing reads (the run itself asks which probe to use)
    assert read | {"matrix_probe"} >= set(METHODS[name].settings_type.model_fields)


def test_a_setting_that_is_read_but_not_in_the_key_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    class Careless(Co2L):
        def begin_task(self, t: int, task: Any) -> None:
            super().begin_task(t, task)
            if t == 0:
                self.kappa = self.settings.kappa

    assert undeclared(reads(Careless, monkeypatch, tmp_path)) == {0: {"kappa"}}
