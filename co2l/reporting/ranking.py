"""How protocols rank methods, how far two rankings agree, and what may be concluded from that."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from co2l.reporting.crossed import Crossed
from co2l.reporting.protocols import Comparison, ProtocolResult


def ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """1 for the highest score; equal scores have the same rank."""
    return {name: 1 + sum(other > score for other in scores.values()) for name, score in scores.items()}


def means(results: Mapping[str, ProtocolResult]) -> dict[str, float]:
    return {method: result.accuracy().mean for method, result in results.items()}


def kendall(one: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    """Kendall's τ-b of two rankings, over the methods in both; None for fewer than two, or if one has only ties."""
    common = [name for name in one if name in other]
    if len(common) < 2:
        return None
    from scipy import stats  # takes a second to load

    tau = float(stats.kendalltau([one[name] for name in common], [other[name] for name in common]).statistic)
    return None if math.isnan(tau) else tau


@dataclass(frozen=True)
class Difference:
    """Between the scores of two methods under one protocol, over their common runs."""

    tested_on: str
    better: str
    worse: str
    over: Crossed  # the mean is not negative


def differences(comparison: Comparison, protocol: str) -> list[Difference]:
    """Every pair of the tested methods."""
    found = []
    for one, other in itertools.combinations(comparison.under(protocol).values(), 2):
        if (over := one.minus(other)) is None:
            continue
        if over.mean < 0:
            one, other = other, one
            over = Crossed(-over.mean, over.half, over.seeds, over.orders, over.left_out)
        found.append(Difference(one.tested_on, one.method, other.method, over))
    return found


@dataclass(frozen=True)
class Reversal:
    """Two methods whose order differs between two protocols."""

    one: Difference
    other: Difference  # better and worse are swapped

    @property
    def certain(self) -> bool:
        """Whether both intervals leave zero out, on opposite sides."""
        return self.one.over.sign == self.other.over.sign == 1


def reversals(comparison: Comparison) -> list[Reversal]:
    """Pairs of methods that change their order, for each pair of protocols."""
    by_protocol = {
        protocol: {(each.better, each.worse): each for each in differences(comparison, protocol) if each.over.mean > 0}
        for protocol in comparison.protocols
    }
    return [
        Reversal(difference, by_protocol[two][difference.worse, difference.better])
        for one, two in itertools.combinations(comparison.protocols, 2)
        for difference in by_protocol[one].values()
        if (difference.worse, difference.better) in by_protocol[two]
    ]


def taus(comparison: Comparison) -> dict[tuple[str, str], float | None]:
    """For each pair of protocols."""
    by_protocol = {protocol: means(comparison.under(protocol)) for protocol in comparison.protocols}
    return {
        (one, two): kendall(by_protocol[one], by_protocol[two])
        for one, two in itertools.combinations(comparison.protocols, 2)
    }


def conclusion(comparison: Comparison) -> str:
    """What may be concluded from the rankings, and what not, in one sentence."""
    n = max((len(comparison.under(protocol)) for protocol in comparison.protocols), default=0)
    if n < 2:
        return "With fewer than two tested methods under any protocol there is no ranking, and nothing to conclude."
    every = [each for protocol in comparison.protocols for each in differences(comparison, protocol)]
    if not every:
        return "No two methods were tested with the same seeds and orders, so their ranks may be those of the draws."
    clear = sum(each.over.sign == 1 for each in every)
    said = f"{clear} of the {len(every)} differences between two methods under one protocol have an interval without 0"
    if len(comparison.protocols) < 2:
        return f"{said}; only where it has may the order of two methods be concluded, and of one protocol no more."
    values, orders = n * (n - 1) // 2 + 1, math.factorial(n)
    chance = f"With {n} methods τ takes only {values} values (without ties) and is 1 by chance once in {orders:,} times"
    return f"{chance}; {said}; {_of_reversals(reversals(comparison), clear)}."


def _of_reversals(found: Sequence[Reversal], clear: int) -> str:
    certain = [each for each in found if each.certain]
    if certain:
        pairs = dict.fromkeys(" and ".join(sorted((each.one.better, each.one.worse))) for each in certain)
        same = all(each.one.tested_on == each.other.tested_on for each in certain)
        what = "the protocol" if same else "the protocol, or the other data that it is tested on,"
        return f"{what} decides which is better of {'; of '.join(pairs)}, whose order is clear both ways"
    if found:
        n = len(found)
        what = f"{n} {'pair changes' if n == 1 else 'pairs change'} order between two protocols"
        why = "none with both intervals clear of 0"
        return f"{what}, {why}, so it may not be concluded that the protocol decides the ranking"
    if clear:
        return "no pair changes its order between protocols, so what is clear under one is contradicted by none"
    return "no pair changes its order between protocols, and neither ranks nor their agreement may be concluded"
