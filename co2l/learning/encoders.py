"""The networks of the paper: an encoder f per kind of image, and the projector g on top of it (appendix A.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from co2l.data.randomness import derive

M = TypeVar("M", bound=nn.Module)


class Encoder(nn.Module):
    """An image network with `dim` outputs; `projection` is the projector's (hidden, output) width."""

    dim: int
    projection: tuple[int, int]


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x), inplace=True)


class ResNet18(Encoder):
    """ResNet-18 with the CIFAR stem (3×3, stride 1, no max-pool), also at 64 pixels as in the released code."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.dim = 8 * width
        self.projection = (self.dim, 128)
        self.stem = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(width)
        blocks: list[nn.Module] = []
        inputs = width
        for outputs, stride in [(width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)]:
            blocks += [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn(self.stem(x)), inplace=True)
        return self.blocks(x).mean(dim=(2, 3))  # type: ignore[no-any-return]  # nn.Module returns Any


class ConvNet(Encoder):
    """Two convolutions, each with ReLU and 2×2 max-pooling, then one fully connected layer with ReLU."""

    def __init__(
        self, shape: tuple[int, int, int], filters: tuple[int, int], kernel: int, padding: int, dim: int
    ) -> None:
        super().__init__()
        channels, height, width = shape
        self.dim = dim
        self.projection = (dim, dim)
        self.conv1 = nn.Conv2d(channels, filters[0], kernel, padding=padding)
        self.conv2 = nn.Conv2d(filters[0], filters[1], kernel, padding=padding)
        for _ in range(2):
            height, width = ((side + 2 * padding - kernel + 1) // 2 for side in (height, width))
        self.fc = nn.Linear(filters[1] * height * width, dim)

    def forward(self, x: Tensor) -> Tensor:
        # max-pooling first is the same (ReLU is monotone) and leaves ReLU a quarter of the work
        x = F.relu(F.max_pool2d(self.conv1(x), 2), inplace=True)
        x = F.relu(F.max_pool2d(self.conv2(x), 2), inplace=True)
        return F.relu(self.fc(x.flatten(1)))


class Projector(nn.Module):
    """g: a two-layer MLP from the encoder's output to the space of the contrastive loss."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        hidden, output = encoder.projection
        self.hidden = nn.Linear(encoder.dim, hidden)
        self.output = nn.Linear(hidden, output)

    def forward(self, h: Tensor) -> Tensor:
        return self.output(F.relu(self.hidden(h)))  # type: ignore[no-any-return]  # nn.Module returns Any


ENCODERS: dict[str, Callable[[tuple[int, int, int], int], Encoder]] = {
    "resnet18": lambda shape, width: ResNet18(shape[0], width),
    "mnist_conv": lambda shape, _: ConvNet(shape, filters=(20, 50), kernel=5, padding=0, dim=500),
    "digits_conv": lambda shape, _: ConvNet(shape, filters=(16, 32), kernel=3, padding=1, dim=64),
}


def build_encoder(name: str, image_shape: tuple[int, int, int], width: int) -> Encoder:
    """With channels last in memory, which images then follow: a CPU's step takes half to nine tenths of the time."""
    return ENCODERS[name](image_shape, width).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def initialised(build: Callable[[], M], seed: int, *path: str | int) -> M:
    """What `build` makes, with weights from the stream (seed, path) and the global generator untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, *path))
        return build()
