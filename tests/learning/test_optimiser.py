"""The descent takes the very steps of `torch.optim.SGD`, and without loading torch's compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import finish, short
from torch import nn

from co2l.learning.optimiser import Descent


def _network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 7), nn.Linear(7, 5))


def _loss(network: nn.Module, step: int) -> torch.Tensor:
    x = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(step))
    parts: Any = network
    return (parts(x) if step % 3 else parts[:3](x)).square().sum()  # every third step the last layer has no gradient


@pytest.mark.parametrize("fused", [True, None])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 5e-4])
def test_the_same_bits_as_torch_s_class(fused: bool | None, momentum: float, weight_decay: float) -> None:
    ours, theirs = _network(), _network()
    options: dict[str, Any] = {"momentum": momentum, "weight_decay": weight_decay, "fused": fused}
    descent, sgd = Descent(ours.parameters(), **options), torch.optim.SGD(theirs.parameters(), **options)
    for step in range(1, 8):
        lr = 0.01 / step
        for group in sgd.param_groups:
            group["lr"] = lr
        descent.zero_grad()
        sgd.zero_grad()
        _loss(ours, step).backward()
        _loss(theirs, step).backward()
        descent.step(lr)
        sgd.step()
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(mine, other)
    held = [sgd.state[p].get("momentum_buffer") for p in theirs.parameters()]
    kept = [descent.buffers.get(p) for p in ours.parameters()]
    assert [each is None for each in held] == [each is None for each in kept] == [momentum == 0] * len(held)
    assert all(torch.equal(a, b) for a, b in zip(held, kept, strict=True) if a is not None and b is not None)


@pytest.mark.parametrize("method", ["co2l", "agem"])
def test_a_run_does_without_the_compiler(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # its import fails
    monkeypatch.delattr(torch.optim.Optimizer, "__init__")  # which asks for it only once in a process
    _, trained = finish(short(method), tmp_path)
    assert trained
