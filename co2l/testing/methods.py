"""What every method promises, checked on short runs: it learns, repeats itself to the bit, and cheats nowhere."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.examples import Examples
from co2l.data.streams import TaskStream
from co2l.errors import Co2lError
from co2l.learning.config import folder as folder_of
from co2l.learning.device import numerics
from co2l.learning.events import RunDone, StepDone, TaskDone
from co2l.learning.methods import METHODS, configure
from co2l.learning.metrics import mean
from co2l.learning.store import Store
from co2l.testing.reading import reads
from co2l.testing.runs import CPU, few_digits, finish, short, start, undisturbed

DIGITS = {"class": "seq_digits", "domain": "r_digits"}
REPORTED = {"class": {"class_il", "task_il"}, "domain": {"domain_il"}}
LEAST = 70  # percent of two classes that were just learned; guessing gives 50
LEAVES = 50  # at most so often is a run left before it ends


def learns_what_it_was_shown_last(name: str, folder: Path) -> None:
    """The two classes of the second task are distinguished after a few epochs, far better than by chance."""
    config = short(name, epochs=12, E_0=12, E_t=12, probe_epochs=20)
    run = start(config, folder, few_digits(each=60))
    if METHODS[name].jointly:
        (row,) = [event.result.final for event in run if isinstance(event, RunDone)]
    else:
        found = next(event.row for event in run if isinstance(event, TaskDone) and event.task == 1)
        assert found is not None, "no accuracies are measured after a task: matrix_probe returns None by default"
        row = found
    assert row["task_il"][1] > LEAST, f"only {row['task_il'][1]:.0f}% of two classes that were just learned are right"


def gives_the_same_bits_when_it_is_left_again_and_again(name: str, folder: Path) -> None:
    config, expected = short(name), undisturbed(name)
    for _ in range(LEAVES):
        run, steps = start(config, folder), 0
        for event in run:
            if isinstance(event, RunDone):
                assert event.result == expected, "a run that was left and continued ends with other weights or scores"
                return
            steps += isinstance(event, StepDone)
            if steps == 4:
                run.close()
                break
    raise AssertionError(f"a run that was left {LEAVES} times never ended")


def gives_other_weights_with_another_seed(name: str, folder: Path) -> None:
    other = finish(short(name, seed=1), folder)[0]
    assert other.weights != undisturbed(name).weights, "the seed changes nothing"


def reads_only_settings_that_its_keys_hold(name: str, folder: Path) -> None:
    """Else runs would share a stage that their settings tell apart."""
    found = reads(name, folder).undeclared()
    said = "; ".join(f"stage {stage} reads {', '.join(sorted(names))}" for stage, names in found.items())
    assert not found, f"{said}: not in its key, declare them Every, First, Later or Probe"


def keeps_no_more_images_than_its_buffer_may_hold(name: str, folder: Path) -> None:
    config = short(name, buffer_size=13)
    allowed = getattr(config.settings, "buffer_size", 0)
    stream, store = few_digits(), Store(str(folder))
    finish(config, folder, stream)
    most = 0
    for key in config.stage_keys(len(stream)):
        state = store.load_state(f"{folder_of(stream.fingerprint, numerics(CPU))}/{key}")
        assert state is not None
        held = [len(tensor) for tensor in _tensors(state) if tensor.dtype == torch.uint8]
        most = max(most, *held, 0)
        assert sum(held) <= allowed, f"{sum(held)} images are in its state, with a buffer of {allowed}"
    assert (most > 0) == (allowed > 0), f"it has a buffer of {allowed} and holds at most {most} images"


def _tensors(state: Mapping[str, Any]) -> Iterator[Tensor]:
    for value in state.values():
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Mapping):
            yield from _tensors(value)


class Poisoned(TaskStream):
    """Overwrites a task's examples when it ends: a method that still looks at them sees noise with wrong labels."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.given: dict[int, Examples] = {}
        self.poisoned = 0

    def train(self, t: int) -> Examples:
        examples = super().train(t)
        self.given[t] = Examples(examples.images.clone(), examples.labels.clone(), examples.tasks.clone())
        return self.given[t]

    def forget(self, t: int) -> None:
        super().forget(t)
        noise = torch.Generator().manual_seed(t)
        self.given[t].pool.random_(0, 256, generator=noise)
        self.given[t].labels.zero_()
        self.poisoned += 1


def never_sees_a_past_task_outside_its_buffer(name: str, folder: Path) -> None:
    stream = few_digits(kind=Poisoned)
    assert isinstance(stream, Poisoned)
    result = finish(short(name), folder, stream)[0]
    assert stream.poisoned == (0 if METHODS[name].jointly else len(stream) - 1), "it does not end every task"
    assert result == undisturbed(name), "it looks at the examples of a task after the task has ended"


def learns_a_task_of_one_batch(name: str, folder: Path) -> None:
    stream = few_digits()
    config = short(name, batch_size=len(stream.train(0)), E_0=1)
    first = next(event for event in start(config, folder, stream) if isinstance(event, StepDone))
    assert METHODS[name].jointly or (first.task, first.steps) == (0, 1), f"it takes {first.steps} steps"
    assert finish(config, folder)[0].weights


def leaves_nothing_in_memory(name: str, folder: Path) -> None:
    finish(short(name), folder / "first")  # what is cached for good is cached now
    before = _alive()
    finish(short(name), folder / "second")
    known = set(map(id, before))  # which no other object has meanwhile, as these are held
    left = [tuple(tensor.shape) for tensor in _alive() if id(tensor) not in known]
    assert not left, f"tensors are left after the run: {left[:5]}"


def _alive() -> list[Tensor]:
    """All tensors that something still refers to."""
    gc.collect()
    return [thing for thing in gc.get_objects() if isinstance(thing, Tensor)]


def reports_the_metrics_of_its_scenarios_and_refuses_others(name: str, folder: Path) -> None:
    kind = METHODS[name]
    for scenario, digits in DIGITS.items():
        if scenario not in kind.scenarios:
            _refuses(name, digits)
            continue
        config = short(name, digits)
        result, _ = finish(config, folder / scenario, few_digits(digits, each=10))
        assert set(result.final) == REPORTED[scenario], f"it measures {', '.join(result.final)} on {digits}"
        for row in result.final.values():
            assert len(row) == 5, f"it measures {len(row)} of 5 tasks"
            assert 0 <= mean(row) <= 100
        expected = set() if kind.jointly else REPORTED[scenario]
        assert set(result.matrix) == expected, f"its accuracy matrix is of {', '.join(result.matrix) or 'nothing'}"


def _refuses(name: str, benchmark: str) -> None:
    try:
        short(name, benchmark)
    except Co2lError:
        return
    raise AssertionError(f"it does not serve {benchmark}, and is configured for it")


def has_defaults_wherever_it_serves(name: str, folder: Path) -> None:
    del folder
    for each in BENCHMARKS.own():
        if BENCHMARKS[each].scenario in METHODS[name].scenarios:
            settings = configure(each, name).settings
            assert min(settings.epochs_per_task(BENCHMARKS[each].tasks)) >= 0


def describes_every_setting(name: str, folder: Path) -> None:
    """Errors and `co2l settings` show what a setting is; those of every method explain themselves by their names."""
    del folder
    kind = METHODS[name].settings_type
    for setting, field in kind.model_fields.items():
        kind.scope(setting)
        assert field.description or setting in ("momentum", "weight_decay"), f"{setting} has no description"


PROMISES = (
    learns_what_it_was_shown_last,
    gives_the_same_bits_when_it_is_left_again_and_again,
    gives_other_weights_with_another_seed,
    reads_only_settings_that_its_keys_hold,
    keeps_no_more_images_than_its_buffer_may_hold,
    never_sees_a_past_task_outside_its_buffer,
    learns_a_task_of_one_batch,
    leaves_nothing_in_memory,
    reports_the_metrics_of_its_scenarios_and_refuses_others,
    has_defaults_wherever_it_serves,
    describes_every_setting,
)
