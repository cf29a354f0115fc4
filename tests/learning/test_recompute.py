"""Activations that are computed a second time change no bit, and BatchNorm counts every batch once."""

from __future__ import annotations

import pytest
import torch
from small_runs import begun
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from co2l.learning.encoders import build_encoder, initialised
from co2l.learning.methods import hal
from co2l.learning.weights import digest

RESNET = {"encoder": "resnet18", "width": 16, "eta": 1e-3, "batch_size": 8}


@pytest.mark.parametrize(
    ("name", "precision"),
    [("co2l", "fp32"), ("co2l", "bf16"), ("er", "fp32"), ("gss", "fp32"), ("hal", "fp32")],  # HAL goes back twice
)
def test_the_same_weights_after_two_tasks(name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hal, "ANCHOR_STEPS", 3)
    settings = {**RESNET, "precision": precision}
    plain, again = (begun(name, tasks=2, steps=2, each=8, **settings, recompute=flag) for flag in (False, True))
    assert digest(plain.state()) == digest(again.state())


def kept(recompute: bool) -> tuple[int, Tensor, Tensor]:
    """The bytes that a forward pass keeps for the backward pass, a gradient, and BatchNorm's count of batches."""
    encoder = initialised(lambda: build_encoder("resnet18", (3, 32, 32), 16, recompute=recompute), 0)
    parameters = {parameter.data_ptr() for parameter in encoder.parameters()}
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in parameters:
            held[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = encoder(torch.rand(8, 3, 32, 32)).square().sum()
    loss.backward()
    gradient, counted = encoder.stem.weight.grad, encoder.blocks[0].bn1.num_batches_tracked
    assert gradient is not None
    return sum(held.values()), gradient, counted


def test_less_than_half_is_kept_and_every_batch_is_counted_once() -> None:
    torch.manual_seed(0)
    (everything, expected, one) = kept(recompute=False)
    torch.manual_seed(0)
    (less, gradient, counted) = kept(recompute=True)
    assert less < 0.5 * everything
    assert torch.equal(gradient, expected)
    assert counted == one == 1
