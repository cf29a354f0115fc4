"""Every random number comes from a stream named by (seed, purpose, …), never from one that runs through.

A stage, an epoch or a step can therefore be computed again, or by somebody else, and gives the same bits.
"""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit seed for the stream named by `path` below `seed`."""
    name = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *path: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator at the beginning of the stream named by `path` below `seed`."""
    return torch.Generator(device=device).manual_seed(derive(seed, *path))
