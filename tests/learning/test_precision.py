"""bf16 is for encoder and projector alone, is part of every key, and serves every method."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_runs import begun, few_digits
from torch import Tensor, nn

from co2l.learning.encoders import Projector, build_encoder, initialised
from co2l.learning.methods import METHODS, configure, hal
from co2l.learning.methods import co2l as module
from co2l.learning.weights import digest


def test_every_precision_has_its_own_states() -> None:
    for method in METHODS:
        configs = [configure("seq_cifar10", method, {"precision": each}) for each in ("fp32", "tf32", "bf16")]
        for t in (0, 1):
            assert len({config.stage_key(t) for config in configs}) == 3
        assert configs[0].key == configure("seq_cifar10", method).key


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_in_bf16_and_keeps_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hal, "ANCHOR_STEPS", 3)
    network = {"encoder": "resnet18", "width": 16, "eta": 1e-3, "batch_size": 8}
    digests = set()
    for precision in ("bf16", "fp32"):
        learner = begun(name, tasks=2, steps=1, each=8, **network, precision=precision)
        assert learner.classifier(1, few_digits(each=8).train(1), "fast")(torch.rand(2, 1, 8, 8)).dtype == torch.float32
        dtypes = {part.dtype for part in _tensors(learner.state())}
        assert dtypes <= {torch.float32, torch.float64, torch.int64, torch.uint8}
        digests.add(digest(learner.state()))
    assert len(digests) == 2


def _tensors(state: Any) -> list[Tensor]:
    if isinstance(state, dict):
        return [part for value in state.values() for part in _tensors(value)]
    return [state] if isinstance(state, Tensor) else []


@pytest.mark.parametrize("name", ["resnet18", "mnist_conv"])
def test_a_network_computes_in_bf16_and_answers_in_float32(name: str) -> None:
    shape = (1, 28, 28)
    x = torch.rand(4, *shape)
    answers = {}
    for precision in ("fp32", "tf32", "bf16"):
        encoder = initialised(lambda p=precision: build_encoder(name, shape, 16, precision=p), 0)
        projector = initialised(lambda e=encoder: Projector(e), 0)
        inside: set[torch.dtype] = set()
        for layer in [*encoder.modules(), *projector.modules()]:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(lambda _m, _i, output, inside=inside: inside.add(output.dtype))
        answers[precision] = projector(encoder(x))
        assert inside == {torch.bfloat16 if precision == "bf16" else torch.float32}
        assert encoder(x).dtype == answers[precision].dtype == torch.float32
    assert torch.equal(answers["tf32"], answers["fp32"])  # on a CPU
    far = (answers["bf16"] - answers["fp32"]).norm() / answers["fp32"].norm()
    assert 0 < far < 0.02


def test_relations_are_compared_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """κ* = 0.01 makes 0.4 of an error of 0.004 in a cosine, which is what bf16 has."""
    seen: list[torch.dtype] = []

    def similarity(z: Tensor) -> Tensor:
        seen.append(z.dtype)
        assert torch.allclose(z.norm(dim=1), torch.ones(len(z)), atol=1e-6)
        return z @ z.T

    monkeypatch.setattr(module, "similarity", similarity)
    begun("co2l", tasks=2, steps=1, precision="bf16")
    assert set(seen) == {torch.float32}
