"""A step that is recorded and replayed, or compiled, is the step: seen here without a GPU and without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_runs import CPU, begun, short
from torch import Tensor

from co2l.data.randomness import generator_for
from co2l.errors import Co2lError
from co2l.learning.graphs import WARM_UP, Losses, Recorded, RepeatedStep
from co2l.learning.weights import digest

SIZE = 4


class Recorder:
    """Instead of CUDA: a replay calls the step again, and writes the losses to where they were the first time."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, step: Callable[[], Losses], _: torch.Generator) -> Recorded:
        losses: Losses = {}
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            for name, value in step().items():
                losses.setdefault(name, torch.empty_like(value)).copy_(value)

        return replay, losses


def test_replayed_steps_are_the_steps() -> None:
    eager, repeated = (begun("co2l", tasks=2, batch_size=SIZE) for _ in range(2))
    recorder = Recorder()
    repeated_step = RepeatedStep(repeated._step, SIZE, CPU, recorder)
    seen: list[tuple[Tensor, Tensor]] = []
    for i, batch in enumerate(eager.draw(1)[:6]):
        lr = 2.0 ** -(7 + i)  # the same in float32
        expected = eager.step(batch, lr, generator_for(0, "step", i))
        losses = repeated_step(batch, lr, generator_for(0, "step", i))
        assert losses.keys() == expected.keys() == {"supcon", "distill"}
        seen.append((losses["distill"], expected["distill"]))
    assert digest(eager.state()) == digest(repeated.state())
    assert all(torch.equal(ours, expected) for ours, expected in seen)  # even the first: nothing was written over
    assert (recorder.recorded, recorder.replayed) == (1, 6 - WARM_UP)


def test_a_compiled_step_is_one_graph_without_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = begun("co2l", tasks=2, steps=3)
    graphs: list[Any] = []
    compiler = torch.compile

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def compile_here(function: Any, **options: Any) -> Any:
        assert options == {"fullgraph": True, "dynamic": False}  # fullgraph: a break is an error
        return compiler(function, **options, backend=backend)

    monkeypatch.setattr(torch, "compile", compile_here)
    torch._dynamo.reset()
    compiled = begun("co2l", tasks=2, steps=3, compile=True)  # of 16, 16 and 12 examples in the first task
    assert len(graphs) == 2  # one for each task: the second has a past model
    assert digest(compiled.state()) == digest(plain.state())


def test_compiled_and_replayed_runs_have_their_own_states() -> None:
    keys = {short(**flags).stage_key(0) for flags in ({}, {"compile": True}, {"cuda_graphs": True})}
    assert len(keys) == 3


def test_compiling_does_not_go_with_computing_again() -> None:
    with pytest.raises(Co2lError, match=r"^compile and recompute do not work together; set one of them to false$"):
        short(compile=True, recompute=True)
