"""Every random number comes from a generator named by (seed, purpose, …), never from one that runs through.

A stage, an epoch or a step can therefore be computed again, in another process too, and gives the same bits.
"""

from __future__ import annotations

import hashlib

import torch


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit seed for the generator named by `path` below `seed`."""
    name = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def generator_for(seed: int, *path: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A new torch generator, named by `path` below `seed`."""
    return torch.Generator(device=device).manual_seed(derive(seed, *path))
