"""The accelerators that one can rent or buy: how much memory they have, how fast they compute and move bytes.

From their makers' data sheets, without sparsity. A card without units for TF32 or bfloat16 computes them as float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from co2l.errors import unknown

Precision = Literal["fp32", "tf32", "bf16"]
GIB = 2**30

# What a process takes beside its tensors: CUDA's context with the kernels of torch and cuDNN, and cuBLAS's workspace.
CONTEXT_GIB = 0.75
# Freed blocks that do not fit the next request, and cuDNN's workspaces; torch's allocator rounds up too.
SPARE = 0.10


@dataclass(frozen=True)
class Card:
    name: str
    product: str  # as its driver names it
    gib: float  # what torch reports as its memory: less than the name says
    fp32: float  # 10¹² FLOP/s at most, as the next two
    tf32: float
    bf16: float
    bandwidth: float  # 10⁹ bytes/s at most

    def flops(self, precision: Precision) -> float:
        """FLOP/s at most."""
        return {"fp32": self.fp32, "tf32": self.tf32, "bf16": self.bf16}[precision] * 1e12

    def holds(self, peak: int, share: float = 1.0) -> bool:
        """Whether a process with so many bytes of tensors fits into a share of the card; more than one is no larger."""
        return gib_on_card(peak) <= self.gib * min(share, 1.0)


CARDS: dict[str, Card] = {
    card.name: card
    for card in (
        Card("t4", "Tesla T4", 14.6, 8.1, 8.1, 8.1, 320),
        Card("v100", "Tesla V100-SXM2-16GB", 15.8, 15.7, 15.7, 15.7, 900),
        Card("a10g", "NVIDIA A10G", 22.0, 35, 35, 70, 600),
        Card("l4", "NVIDIA L4", 22.0, 30.3, 60, 121, 300),
        Card("rtx3090", "NVIDIA GeForce RTX 3090", 23.6, 35.6, 35.6, 71, 936),
        Card("rtx4090", "NVIDIA GeForce RTX 4090", 23.6, 82.6, 82.6, 165, 1008),
        Card("a100", "NVIDIA A100-SXM4-40GB", 39.4, 19.5, 156, 312, 1555),
        Card("l40s", "NVIDIA L40S", 44.4, 91.6, 183, 362, 864),
        Card("a6000", "NVIDIA RTX A6000", 47.4, 38.7, 77.4, 154.8, 768),
        Card("a100-80gb", "NVIDIA A100-SXM4-80GB", 79.2, 19.5, 156, 312, 2039),
        Card("h100", "NVIDIA H100 80GB HBM3", 79.1, 67, 494, 989, 3350),
        Card("h200", "NVIDIA H200", 139.8, 67, 494, 989, 4800),
    )
}

# The card of AWS's instances, by the part of their type before the dot.
AWS: dict[str, str] = {
    "g4dn": "t4",
    "g5": "a10g",
    "g6": "l4",
    "g6e": "l40s",
    "p3": "v100",
    "p4d": "a100",
    "p4de": "a100-80gb",
    "p5": "h100",
    "p5e": "h200",
    "p5en": "h200",
}


def card(name: str, *, where: str = "") -> Card:
    if name.lower() not in CARDS:
        raise unknown("card", name, CARDS, where=where)
    return CARDS[name.lower()]


def of_product(product: str) -> Card | None:
    """The card that a driver, or a label of Kubernetes with hyphens for blanks, calls by this name."""
    return next((card for card in CARDS.values() if card.product.replace(" ", "-") == product.replace(" ", "-")), None)


def of_instance(instance: str) -> Card | None:
    """The card of an AWS instance type, as g5.2xlarge."""
    name = AWS.get(instance.partition(".")[0])
    return CARDS[name] if name else None


def gib_on_card(peak: int) -> float:
    """The GiB that a process takes of a card while it holds so many bytes of tensors."""
    return peak * (1 + SPARE) / GIB + CONTEXT_GIB
