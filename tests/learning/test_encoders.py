"""The networks have the paper's sizes, and the same seed gives the same weights."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from co2l.learning.encoders import ENCODERS, Projector, build_encoder
from co2l.testing.fixtures import Keeps


def size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_resnet18_has_the_cifar_stem_and_the_known_number_of_weights() -> None:
    encoder = build_encoder("resnet18", (3, 32, 32), 64)
    # torchvision's ResNet-18 has 11,689,512 weights: without its classifier, with 3×3 instead of 7×7 filters first
    assert size(encoder) == 11_689_512 - 513 * 1000 - 64 * 3 * (49 - 9)
    assert encoder(torch.zeros(2, 3, 32, 32)).shape == (2, 512)
    assert encoder(torch.zeros(2, 3, 64, 64)).shape == (2, 512)
    assert Projector(encoder)(torch.zeros(2, 512)).shape == (2, 128)


def test_resnet18_can_be_narrow() -> None:
    assert build_encoder("resnet18", (3, 32, 32), 16)(torch.zeros(2, 3, 32, 32)).shape == (2, 128)


def test_the_narrowest_network_learns_from_batches_of_any_size() -> None:
    """In a separate process: a narrower one kills it."""
    program = """
import torch
from co2l.learning.config import Settings
from co2l.learning.encoders import build_encoder
torch.set_num_threads(2)
(least,) = (rule.ge for rule in Settings.model_fields["width"].metadata if hasattr(rule, "ge"))
encoder = build_encoder("resnet18", (3, 32, 32), least)
for n in range(1, 34, 4):
    encoder(torch.zeros(n, 3, 32, 32)).sum().backward()
print("learned with", least)
"""
    waiting = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # its threads burn no core that others need
    done = subprocess.run([sys.executable, "-c", program], env=waiting, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "learned with 16\n"), done.stderr


def test_r_mnist_network_of_the_appendix() -> None:
    encoder = build_encoder("mnist_conv", (1, 28, 28), 64)
    assert size(encoder) == (25 + 1) * 20 + (20 * 25 + 1) * 50 + (50 * 16 + 1) * 500
    assert size(Projector(encoder)) == 2 * 501 * 500
    assert Projector(encoder)(encoder(torch.zeros(3, 1, 28, 28))).shape == (3, 500)


@pytest.mark.parametrize("name", ENCODERS)
def test_it_keeps_every_promise(name: str, encoder_promise: Keeps) -> None:
    encoder_promise(name)
