"""The networks of the paper: an encoder f per kind of image, and the projector g on top of it (appendix A.2)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from co2l.data.randomness import derive
from co2l.learning.cards import Precision
from co2l.plugins import Registry

M = TypeVar("M", bound=nn.Module)


class Mixed(nn.Module):
    """A network that computes in its precision and answers in float32: what compares its outputs needs that."""

    precision: Precision = "fp32"

    def forward(self, x: Tensor) -> Tensor:
        if self.precision != "bf16":
            return self.compute(x)
        with torch.autocast(x.device.type, torch.bfloat16):
            return self.compute(x).float()

    def compute(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class Encoder(Mixed):
    """An image network with `dim` outputs; `projection` is the projector's (hidden, output) width."""

    dim: int
    projection: tuple[int, int]
    recompute = False  # keep only the blocks' inputs of a forward pass, and compute the rest again on the way back


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
    """ResNet-18 with the CIFAR stem (3×3, stride 1, no max-pool), at 64 pixels too, as in the released code."""

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

    def compute(self, x: Tensor) -> Tensor:
        first, *others = self.blocks
        # the stem's outputs are as large as a block's, and computed again for next to nothing
        parts = [nn.Sequential(self.stem, self.bn, nn.ReLU(inplace=True), first), *others]
        for number, part in enumerate(parts):
            # the last stage is a quarter of the work and a sixteenth of the memory
            again = self.recompute and self.training and number < len(parts) - 2
            x = computed_again(part, x) if again else part(x)
        return x.mean(dim=(2, 3))


def computed_again(part: nn.Module, x: Tensor) -> Tensor:
    """`part(x)` to the bit, without keeping what is in between: the backward pass computes it a second time."""
    if not torch.is_grad_enabled():
        return part(x)  # type: ignore[no-any-return]  # nn.Module returns Any
    again: Tensor = checkpoint(
        part, x, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: (nullcontext(), Uncounted(part))
    )
    return again


def count_nothing(network: nn.Module) -> None:
    """For good: the running statistics of a network that is only asked are not read, and counting is a launch each."""
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d) and part.training:
            part.track_running_stats = False


class Uncounted:
    """Within it BatchNorm counts in copies, which are thrown away. Entered again by each backward pass of one graph."""

    def __init__(self, network: nn.Module) -> None:
        self._norms = [part for part in network.modules() if isinstance(part, nn.BatchNorm2d)]

    def __enter__(self) -> None:
        self._counted = [(norm, dict(norm.named_buffers())) for norm in self._norms]
        for norm, buffers in self._counted:
            for name, buffer in buffers.items():
                setattr(norm, name, buffer.clone())

    def __exit__(self, *_: object) -> None:
        for norm, buffers in self._counted:
            for name, buffer in buffers.items():
                setattr(norm, name, buffer)


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

    def compute(self, x: Tensor) -> Tensor:
        # max-pooling first is the same (ReLU is monotone) and leaves ReLU a quarter of the work
        x = F.relu(F.max_pool2d(self.conv1(x), 2), inplace=True)
        x = F.relu(F.max_pool2d(self.conv2(x), 2), inplace=True)
        return F.relu(self.fc(x.flatten(1)))


class MLP(Encoder):
    """Two fully connected layers with ReLU, for images whose neighbouring pixels have nothing in common."""

    def __init__(self, shape: tuple[int, int, int], dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.projection = (dim, dim)
        self.fc1 = nn.Linear(shape[0] * shape[1] * shape[2], dim)
        self.fc2 = nn.Linear(dim, dim)

    def compute(self, x: Tensor) -> Tensor:
        return F.relu(self.fc2(F.relu(self.fc1(x.flatten(1)))))


class Projector(Mixed):
    """g: a two-layer MLP from the encoder's output to the space of the contrastive loss."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.precision = encoder.precision
        hidden, output = encoder.projection
        self.hidden = nn.Linear(encoder.dim, hidden)
        self.output = nn.Linear(hidden, output)

    def compute(self, x: Tensor) -> Tensor:
        return self.output(F.relu(self.hidden(x)))  # type: ignore[no-any-return]  # nn.Module returns Any


Shape = tuple[int, int, int]
Build = Callable[[Shape, int], Encoder]  # of the images' shape and the setting `width`
_OWN: dict[str, Build] = {
    "resnet18": lambda shape, width: ResNet18(shape[0], width),
    "mnist_conv": lambda shape, _: ConvNet(shape, filters=(20, 50), kernel=5, padding=0, dim=500),
    "mnist_mlp": lambda shape, _: MLP(shape, dim=100),  # as the baselines' release has on MNIST
    "digits_conv": lambda shape, _: ConvNet(shape, filters=(16, 32), kernel=3, padding=1, dim=64),
}
ENCODERS: Registry[Build] = Registry(
    "encoder", _OWN, lambda _, thing: "" if callable(thing) else "is not a function of shape and width"
)


def suited(shape: Shape) -> str:
    """The encoder of co2l's own for images of a size that nobody chose one for."""
    smallest = min(shape[1:])
    return "resnet18" if smallest >= 32 else "mnist_conv" if smallest >= 16 else "digits_conv"


def build_encoder(
    name: str,
    image_shape: Shape,
    width: int,
    *,
    precision: Precision = "fp32",
    recompute: bool = False,
) -> Encoder:
    """With channels last in memory, which images then follow: a CPU's step takes half to nine tenths of the time."""
    encoder = ENCODERS[name](image_shape, width)
    encoder.precision, encoder.recompute = precision, recompute
    return encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def initialised(build: Callable[[], M], seed: int, *path: str | int) -> M:
    """What `build` makes, with weights from the generator (seed, path); the global generator is untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, *path))
        return build()
