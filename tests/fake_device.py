"""A device that is not there: what a training step does on an accelerator, seen on a machine that has none.

    with fake_device() as seen:
        method = METHODS["er"](settings, benchmark, 0, torch.device("fake"))
        …
        seen.clear()
        method.step(batch, lr, generator_for(0, "step", device="fake"))
    assert not seen.waits

A tensor on `fake` wraps one in the machine's memory and computes there, so results are real and can be compared with
those of the CPU. It refuses what an accelerator refuses, as a CPU tensor among its own, and `seen` records by file
and line what would make the host wait: reading a value, an output whose shape depends on values, a copy to or from
pageable memory. What an accelerator's own kernels do inside is not seen; the table below lists those known to wait.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

import co2l

NAME = "fake"
PACKAGE = Path(co2l.__file__).parent
aten = torch.ops.aten

# CUDA's kernels for these read values back before they return
READ_BACK = {
    aten._local_scalar_dense.default: "reads a value",
    aten.equal.default: "reads a value",
    aten.nonzero.default: "a shape that depends on values",
    aten.masked_select.default: "a shape that depends on values",
    aten._unique2.default: "a shape that depends on values",
    aten.unique_dim.default: "a shape that depends on values",
    aten.unique_consecutive.default: "a shape that depends on values",
    aten.bincount.default: "a shape that depends on values",
    aten.repeat_interleave.Tensor: "a shape that depends on values",
    aten.multinomial.default: "checks its probabilities",
    aten._linalg_eigh.default: "checks that it converged",
}
MASKED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
COPIES = {aten._to_copy.default, aten.copy_.default, aten.copy.default}
NO_KERNEL = {  # beside the views, which the schema tells: only the host's bookkeeping
    aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, aten.new_empty.default,
    aten.new_empty_strided.default, aten.detach.default, aten._local_scalar_dense.default,
    aten.lift_fresh.default, aten._unsafe_view.default, aten._reshape_alias.default,
}  # fmt: skip


@dataclass
class Seen:
    """What happened on the device."""

    waits: list[str] = field(default_factory=list)  # "co2l/data/buffer.py:12 nonzero: a shape that …"
    launches: Counter[str] = field(default_factory=Counter)  # kernels by name

    def clear(self) -> None:
        self.waits.clear()
        self.launches.clear()

    @property
    def operations(self) -> int:
        return self.launches.total()


class FakeTensor(Tensor):
    """A tensor on the fake device, and the one in memory that holds its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> FakeTensor:
        made: FakeTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
            requires_grad=held.requires_grad,
        )
        made.held = held
        return made

    def __repr__(self, **_: Any) -> str:
        return f"FakeTensor({self.held!r})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], _meta: None, _size: Any, _stride: Any) -> FakeTensor:
        return FakeTensor(inner["held"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _Device.current(func, args, kwargs or {})


class FakeGenerator(torch.Generator):
    """The machine's generator, which may say that it is on the fake device."""

    fake: bool

    def __new__(cls, device: torch.device | str = "cpu") -> FakeGenerator:
        made = super().__new__(cls)
        made.fake = torch.device(device).type == NAME
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device(NAME if self.fake else "cpu")


class _Device(TorchDispatchMode):
    current: Callable[[Any, Any, Any], Any]

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = [part for part in tree_flatten((args, kwargs))[0] if isinstance(part, Tensor)]
        ours = [part for part in tensors if isinstance(part, FakeTensor)]
        asked = kwargs.get("device")
        made_here = asked is not None and torch.device(asked).type == NAME
        if not ours and not made_here:
            return func(*args, **kwargs)
        if func in COPIES:
            return self._copy(func, args, kwargs)
        strangers = [part for part in tensors if not isinstance(part, FakeTensor) and part.dim() > 0]
        if strangers:
            raise RuntimeError(f"{func}: a tensor of shape {[*strangers[0].shape]} is on the CPU, others on {NAME}")
        self._note(func, args)
        if func.is_view is False and func not in NO_KERNEL:
            self.seen.launches[func.__name__.partition(".")[0]] += 1
        result = func(*tree_map(_held, args), **tree_map(_held, {**kwargs, **({"device": "cpu"} if made_here else {})}))
        return self._wrapped(func, args, kwargs, result)

    def _copy(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        target, source = (None, args[0]) if func is aten._to_copy.default else args[:2]
        asked = kwargs.get("device")
        if target is None:
            onto = isinstance(source, FakeTensor) if asked is None else torch.device(asked).type == NAME
        else:
            onto = isinstance(target, FakeTensor)
        by_value = target is not None and source.dim() == 0  # a number travels with the launch
        self.seen.launches["copy"] += 1
        if isinstance(source, FakeTensor) != onto and not (onto and by_value):
            self.seen.waits.append(f"{_where()} copy {'to' if onto else 'from'} the device")
        result = func(*tree_map(_held, args), **{**kwargs, **({} if asked is None else {"device": "cpu"})})
        if func is aten.copy_.default:
            return target
        return FakeTensor(result) if onto else result

    def _wrapped(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> Any:
        wrapped = tree_map(lambda part: FakeTensor(part) if isinstance(part, Tensor) else part, result)
        return return_and_correct_aliasing(func, args, kwargs, wrapped)

    def _note(self, func: Any, args: Any) -> None:
        reason = READ_BACK.get(func)
        if func in MASKED and any(mask is not None and mask.dtype in (torch.bool, torch.uint8) for mask in args[1]):
            reason = "a shape that depends on values"
        if reason:
            self.seen.waits.append(f"{_where()} {func.__name__.partition('.')[0]}: {reason}")


class _Constants(TorchFunctionMode):
    """`torch.tensor` makes its tensor in memory and copies it, below what a dispatch mode can see."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device).type == NAME:
            return func(*args, **{**kwargs, "device": "cpu"}).to(device)
        return func(*args, **kwargs)


def values(tensor: Tensor) -> Tensor:
    """A device's tensor in memory, without that this counts as a wait."""
    assert isinstance(tensor, FakeTensor)
    return tensor.held


def _held(part: Any) -> Any:
    return part.held if isinstance(part, FakeTensor) else part


def _where() -> str:
    """The innermost line of the package that is running; of a backward pass there is none."""
    frame = sys._getframe()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            return f"{path.relative_to(PACKAGE.parent)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "backward"


class _Module(_DummyBackendModule):
    """There only within `fake_device`: elsewhere `auto` must not find it."""

    there = False

    def is_available(self) -> bool:
        return self.there

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


# At import: autograd counts the devices at its first backward pass, and never again.
if torch._C._get_privateuse1_backend_name() != NAME:
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())


@contextlib.contextmanager
def fake_device() -> Iterator[Seen]:
    """`torch.device("fake")` within the block; what it saw."""
    seen = Seen()
    device = _Device(seen)
    _Device.current = device.run
    with patch.object(_Module, "there", True), patch.object(torch, "Generator", FakeGenerator), _Constants(), device:
        yield seen
