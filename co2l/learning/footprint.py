"""What a trial needs of a device, before it has one: memory, FLOPs and bytes moved, from one step of the method itself.

The method is built as for training, its network and images are replaced by tensors that have a shape and no memory, and
two steps run on them. This takes a fraction of a second, whatever the batch, and has no formula per method: the
precision, recomputed activations, a past model or a buffer show because the step's own code uses them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from co2l.data.benchmarks import Benchmark
from co2l.data.examples import Examples
from co2l.data.randomness import generator_for
from co2l.errors import Co2lError, headline
from co2l.learning.config import RunConfig
from co2l.learning.counting import Count, Kernel
from co2l.learning.methods import METHODS
from co2l.learning.methods.base import Method

CPU = torch.device("cpu")
aten = torch.ops.aten


@dataclass(frozen=True)
class Footprint:
    """Bytes at the fullest moment of a training step, by what they are, and the kernels of that step."""

    weights: int
    past: int  # the past model
    data: int  # the task's examples, the buffer, and both together as D
    optimiser: int  # gradients and momentum
    step: int  # activations, views and other temporary tensors
    examples: int  # of the task
    drawn: int  # in an epoch: of the task, and of the buffer if epochs go over it
    batch: int  # examples of the step
    kernels: tuple[Kernel, ...] = field(repr=False)

    @property
    def peak(self) -> int:
        return self.weights + self.past + self.data + self.optimiser + self.step


def footprint(config: RunConfig, t: int | None = None, *, examples: int | None = None) -> Footprint:
    """Of a step of task `t` (0-based; default: the last) with `examples` (default: those of the benchmark).

    The buffer is as full as it is by then.
    """
    spec = config.spec
    t = spec.tasks - 1 if t is None else t
    with warnings.catch_warnings(), _Undrawn():  # type: ignore[no-untyped-call]  # torch's
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")  # deep copies ask for it
        try:
            method = METHODS[config.method](config.settings, spec, config.seed, CPU)
            return _Trial(method, config, spec, t).footprint(examples or _examples(config, spec, t))
        except Exception as error:  # a method that computes outside torch cannot do so with shapes alone
            raise Co2lError(f"what it needs cannot be estimated ({headline(error)})", where=config.method) from error


def _examples(config: RunConfig, spec: Benchmark, t: int) -> int:
    """How many examples the task has, or all of them where a method learns jointly."""
    n = round(spec.examples * (1 - config.split.fraction))
    joint = METHODS[config.method].jointly and t == spec.tasks - 1
    each = n if spec.scenario == "domain" else n // spec.tasks
    return max(config.settings.batch_size, each * (spec.tasks if joint else 1))


class _Undrawn(TorchDispatchMode):
    """Leaves out drawing: of initial weights as it takes most of the time, of others as it needs real tensors."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in (aten.normal_.default, aten.uniform_.default, aten.exponential_.default):
            return args[0]
        return func(*args, **(kwargs or {}))


class _Trial:
    """A method whose large tensors have no memory."""

    def __init__(self, method: Method, config: RunConfig, spec: Benchmark, t: int) -> None:
        self.method, self.config, self.spec, self.t = method, config, spec, t
        self.fakes = FakeTensorMode(allow_non_fake_inputs=True)
        self.count = Count()

    def footprint(self, n: int) -> Footprint:
        for module in _modules(self.method):
            self._empty(module)
        weights = self.count.live
        task = self._made_up(n, current=True)
        with self.count:
            self._remember()
            self.method.begin_task(self.t, task)
        for module in _modules(self.method):
            self._hold(module)
        past = sum(_size(module) for module in _modules(self.method)) - weights
        data = self.count.live - weights - past
        before = self.count.live
        order = self._two_steps()
        optimiser = self.count.live - before
        step = self.count.peak - before - optimiser
        drawn = sum(map(len, order))
        return Footprint(
            weights, past, data, optimiser, step, n, drawn, len(order[0]), kernels=tuple(self.count.kernels)
        )

    def _two_steps(self) -> list[Tensor]:
        """From the second one on, there are momentum and the gradients of the step before."""
        order = self.method.draw(1)
        lr = self.method.schedule(self.t).lr(1, 0, len(order))
        for i in range(2):
            with self.count:
                self.count.kernels.clear()
                self.method.step(order[0], lr, generator_for(self.config.seed, "footprint", i))
        return order

    def _empty(self, network: nn.Module) -> None:
        """Take the memory of a network's parameters away, which stay the ones that the optimiser knows."""
        for module in network.modules():
            for parameter in module._parameters.values():
                if parameter is not None:
                    fake = self._like(parameter).requires_grad_(parameter.requires_grad)
                    fake._is_param = True  # as nn.Parameter does
                    torch.utils.swap_tensors(parameter, fake)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = self._like(buffer)
        self._hold(network)

    def _like(self, tensor: Tensor) -> Tensor:
        with self.fakes:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)

    def _hold(self, network: nn.Module) -> None:
        for tensor in [*network.parameters(), *network.buffers()]:
            self.count.hold(tensor)

    def _images(self, n: int, dtype: torch.dtype = torch.uint8) -> Tensor:
        with self.fakes:
            images = torch.empty(n, *self.spec.image_shape, dtype=dtype)
        self.count.hold(images)
        return images

    def _made_up(self, n: int, *, current: bool) -> Examples:
        """Examples of this task, or of all before; only their images need much memory."""
        with self.count:
            tasks = torch.full((n,), self.t) if current else torch.arange(n) * self.t // n
            classes = self.spec.classes_per_task
            labels = torch.arange(n) % classes
            if self.spec.scenario == "class":
                labels += tasks * classes
        return Examples(self._images(n), labels, tasks)

    def _remember(self) -> None:
        """Fill the buffer, and HAL's anchors, with what all tasks before this one leave."""
        state, t = self.method.state(), self.t
        size = getattr(self.config.settings, "buffer_size", 0)
        if t and "memory" in state and size:
            n = t * _examples(self.config, self.spec, 0)
            filled = self._made_up(min(size, n) if isinstance(size, int) else n, current=False).state()
            filled["priorities"] = torch.zeros(len(filled["labels"]), dtype=torch.float64)
            if "logits" in state["memory"]:
                with self.fakes:
                    filled["logits"] = torch.empty(len(filled["labels"]), self.spec.num_classes)
            state["memory"] = filled
        if t and "anchors" in state:
            state["anchors"] = self._images(t * self.spec.classes_per_task, torch.float32)
        self.method.load_state(state)


def _modules(method: Method) -> Iterator[nn.Module]:
    return (part for part in vars(method).values() if isinstance(part, nn.Module))


def _size(network: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in [*network.parameters(), *network.buffers()])
