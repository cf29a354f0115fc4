"""Results of protocols with made-up accuracies, for tests of what is computed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from co2l.reporting.protocols import Effort, ProtocolResult

SEEDS = (-0.1, 0.0, 0.1)  # what each seed adds


def result(
    method: str,
    protocol: str,
    score: float,
    *,
    seeds: Sequence[float] = SEEDS,
    orders: Sequence[float] = (0.0,),
    first_seed: int = 0,
    **fields: Any,
) -> ProtocolResult:
    """`seeds` and `orders` are added to the score; Class-IL is ten below it, Task-IL ten above."""
    accuracies = {
        (first_seed + i, j): {"class_il": value - 10, "task_il": value + 10, "score": value}
        for i, by_seed in enumerate(seeds)
        for j, by_order in enumerate(orders)
        for value in [score + by_seed + by_order]
    }
    given = {
        "benchmark": "seq_digits",
        "tested_on": "seq_digits",
        "configuration": f"{method} {protocol}",
        "choosing": Effort(1000, 0.5),
        "training": Effort(40, 0.02),
        **fields,
    }
    return ProtocolResult(method=method, protocol=protocol, accuracies=accuracies, **given)


def grid(
    methods: Iterable[str], protocols: Iterable[str], score: Callable[[str], float], **fields: Any
) -> list[ProtocolResult]:
    return [result(m, p, score(m), **fields) for m in methods for p in protocols]
