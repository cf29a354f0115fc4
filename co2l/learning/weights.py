"""Whether two states are the same to the bit: by a digest over all their tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def digest(state: Mapping[str, Any]) -> str:
    """SHA-256 over all tensors of a state, in the order of their names."""
    total = hashlib.sha256()

    def add(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name in sorted(value):
                add(f"{path}/{name}", value[name])
        elif isinstance(value, Tensor):
            total.update(f"{path} {value.dtype} {tuple(value.shape)}".encode())
            total.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        else:
            total.update(f"{path} {value!r}".encode())

    add("", state)
    return total.hexdigest()
