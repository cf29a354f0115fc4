"""What a block of torch code holds at most and how much it computes: live bytes, FLOPs, bytes moved, kernels.

Only shapes matter, so the tensors may be fake ones, which have a shape and no memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
NO_KERNEL = {  # beside the views, which an operator's schema tells: only bookkeeping
    aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, aten.new_empty.default,
    aten.new_empty_strided.default, aten.detach.default, aten._local_scalar_dense.default, aten.lift_fresh.default,
    aten._unsafe_view.default, aten._reshape_alias.default,
}  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """One call of an operator: its multiplications and additions, and the bytes of its inputs and outputs."""

    name: str
    flops: int
    moved: int


class Count(TorchDispatchMode):
    """Counts what operators allocate and compute within its block.

    What an operator allocates for itself and frees before it returns is not seen. A value that is read from a fake
    tensor is 0, or False.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.live = self.peak = 0
        self.kernels: list[Kernel] = []
        self._held: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is aten._local_scalar_dense.default and isinstance(args[0], FakeTensor):
            return False if args[0].dtype == torch.bool else 0
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        for tensor in outputs:
            self.hold(tensor)
        if func.namespace != "prim" and not func.is_view and func not in NO_KERNEL:
            formula = flop_registry.get(func._overloadpacket)
            flops = formula(*args, **kwargs, out_val=result) if formula else 0
            moved = sum(tensor.nbytes for tensor in [*_tensors((args, kwargs)), *outputs])
            self.kernels.append(Kernel(func._overloadpacket.__name__, flops, moved))
        return result

    def hold(self, tensor: Tensor) -> None:
        """Count a tensor's memory until it is freed, once however many tensors share it."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._held:
            return
        address, size = storage._cdata, storage.nbytes()

        def freed(_: object) -> None:
            del self._held[address]
            self.live -= size

        self._held[address] = weakref.ref(storage, freed)
        self.live += size
        self.peak = max(self.peak, self.live)


def _tensors(parts: Any) -> list[Tensor]:
    return [part for part in tree_leaves(parts) if isinstance(part, Tensor)]
