"""What every method must do. Parametrised over METHODS: a new method is covered from the day it is named there."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CPU, few_digits, finish, short, start
from torch import Tensor

from co2l.data.benchmarks import benchmark
from co2l.data.examples import Examples
from co2l.data.streams import TaskStream
from co2l.errors import Co2lError
from co2l.learning.config import folder
from co2l.learning.device import numerics
from co2l.learning.events import Result, RunDone, StepDone, TaskDone
from co2l.learning.methods import METHODS, configure, hal
from co2l.learning.metrics import mean
from co2l.learning.store import Store

every_method = pytest.mark.parametrize("name", METHODS)
BENCHMARKS = {"class": "seq_digits", "domain": "r_digits"}
REPORTED = {"class": {"class_il", "task_il"}, "domain": {"domain_il"}}


@pytest.fixture(autouse=True)
def _few_anchor_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hal, "ANCHOR_STEPS", 10)  # nothing here depends on how far HAL's anchors are learned


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """A method's whole run, made once."""
    return functools.cache(lambda name: finish(short(name), tmp_path_factory.mktemp(name))[0])


@every_method
def test_learns_what_it_was_shown_last(name: str, tmp_path: Path) -> None:
    """The two classes of the second task are distinguished after a few epochs, far better than by chance."""
    config = short(name, epochs=12, E_0=12, E_t=12, probe_epochs=20)
    run = start(config, tmp_path, few_digits(each=60))
    if METHODS[name].jointly:
        (accuracies,) = [event.result.final for event in run if isinstance(event, RunDone)]
    else:
        accuracies = next(event.row for event in run if isinstance(event, TaskDone) and event.task == 1)
    assert accuracies["task_il"][1] > 70


@every_method
def test_the_same_bits_through_and_left_in_the_middle_again_and_again(
    name: str, tmp_path: Path, undisturbed: Callable[[str], Result]
) -> None:
    config, expected = short(name), undisturbed(name)
    for _ in range(50):
        run = start(config, tmp_path / "left")
        steps = 0
        for event in run:
            if isinstance(event, RunDone):
                assert event.result == expected
                return
            steps += isinstance(event, StepDone)
            if steps == 4:
                run.close()
                break
    pytest.fail("the run never ended")


@every_method
def test_another_seed_gives_other_weights(name: str, tmp_path: Path, undisturbed: Callable[[str], Result]) -> None:
    assert finish(short(name, seed=1), tmp_path)[0].weights != undisturbed(name).weights


def tensors(state: Mapping[str, Any]) -> Iterator[Tensor]:
    for value in state.values():
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Mapping):
            yield from tensors(value)


@every_method
def test_keeps_no_more_images_than_its_buffer_may_hold(name: str, tmp_path: Path) -> None:
    config = short(name, buffer_size=13)
    allowed = getattr(config.settings, "buffer_size", 0)
    stream, store = few_digits(), Store(tmp_path)
    finish(config, tmp_path, stream)
    most = 0
    for key in config.stage_keys(len(stream)):
        state = store.load_state(f"{folder(stream.fingerprint, numerics(CPU))}/{key}")
        assert state is not None
        held = [len(tensor) for tensor in tensors(state) if tensor.dtype == torch.uint8]
        most = max(most, *held, 0)
        assert sum(held) <= allowed
    assert (most > 0) == (allowed > 0)


class Poisoned(TaskStream):
    """Overwrites a task's examples when it ends: a method that still looks at them sees noise with wrong labels."""

    poisoned = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.given: dict[int, Examples] = {}

    def train(self, t: int) -> Examples:
        examples = super().train(t)
        self.given[t] = Examples(examples.images.clone(), examples.labels.clone(), examples.tasks.clone())
        return self.given[t]

    def forget(self, t: int) -> None:
        super().forget(t)
        noise = torch.Generator().manual_seed(t)
        self.given[t].pool.random_(0, 256, generator=noise)
        self.given[t].labels.zero_()
        Poisoned.poisoned += 1


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if not kind.jointly])
def test_never_sees_a_past_task_outside_its_buffer(
    name: str, tmp_path: Path, undisturbed: Callable[[str], Result]
) -> None:
    Poisoned.poisoned = 0
    assert finish(short(name), tmp_path, few_digits(kind=Poisoned))[0] == undisturbed(name)
    assert Poisoned.poisoned == 4


def test_only_the_upper_bound_sees_all_tasks_at_once() -> None:
    assert [name for name, kind in METHODS.items() if kind.jointly] == ["joint"]


@every_method
def test_a_task_of_one_batch(name: str, tmp_path: Path) -> None:
    stream = few_digits()
    config = short(name, batch_size=len(stream.train(0)), E_0=1)
    first = next(event for event in start(config, tmp_path, stream) if isinstance(event, StepDone))
    if not METHODS[name].jointly:
        assert (first.task, first.steps) == (0, 1)
    assert finish(config, tmp_path)[0].weights


@every_method
def test_nothing_stays_in_memory(name: str, tmp_path: Path) -> None:
    finish(short(name), tmp_path / "first")  # what is cached for good is cached now
    gc.collect()
    gc.freeze()  # from here on only what is new is looked at
    try:
        finish(short(name), tmp_path / "second")
        gc.collect()
        assert not [thing.shape for thing in gc.get_objects() if isinstance(thing, Tensor)]
    finally:
        gc.unfreeze()


@every_method
@pytest.mark.parametrize("scenario", BENCHMARKS)
def test_reports_the_metrics_of_its_scenarios_or_refuses(name: str, scenario: str, tmp_path: Path) -> None:
    if scenario not in METHODS[name].scenarios:
        with pytest.raises(Co2lError, match=f"method '{name}' cannot serve {scenario}-incremental") as caught:
            short(name, BENCHMARKS[scenario])
        assert "\n" not in str(caught.value)
        return
    config = short(name, BENCHMARKS[scenario])
    result, _ = finish(config, tmp_path, few_digits(config.benchmark, each=10))
    assert set(result.final) == REPORTED[scenario]
    for row in result.final.values():
        assert len(row) == 5
        assert 0 <= mean(row) <= 100
    assert set(result.matrix) == (set() if METHODS[name].jointly else REPORTED[scenario])


def test_icarl_serves_new_classes_only() -> None:
    with pytest.raises(Co2lError, match="'icarl' cannot serve domain-incremental 'r_mnist'; it serves class-incr"):
        configure("r_mnist", "icarl")


@every_method
def test_has_defaults_wherever_it_can_serve(name: str) -> None:
    for each in ("seq_cifar10", "seq_tiny_imagenet", "r_mnist", "seq_digits", "r_digits"):
        if benchmark(each).scenario in METHODS[name].scenarios:
            assert configure(each, name).settings.eta > 0


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("finetune", {"buffer_size": 200}, "unknown setting 'buffer_size'"),
        ("joint", {"matrix_probe": "none"}, "unknown setting 'matrix_probe'"),
        ("er", {"alpha": 0.5}, "unknown setting 'alpha'"),
        ("gem", {"minibatch_size": 5}, "unknown setting 'minibatch_size'"),
        ("gem", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks of seq_digits; use at least 5"),
        ("agem", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks"),
        ("fdr", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks"),
        ("hal", {"buffer_size": 4}, "buffer_size=4 is smaller than the 5 tasks"),
        ("icarl", {"buffer_size": 9}, "buffer_size=9 is smaller than the 10 classes of seq_digits"),
        ("er", {"buffer_size": 0}, "buffer_size: input should be greater than or equal to 1, got 0"),
        ("hal", {"beta": 1.5}, "beta: input should be less than or equal to 1"),
    ],
)
def test_bad_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Co2lError) as caught:
        configure("seq_digits", name, settings, where="--set")
    assert str(caught.value).startswith(f"--set: {message}")
    assert "\n" not in str(caught.value)
