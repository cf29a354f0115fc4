"""What a choice costs: accuracy over total compute, and the budget at which one method overtakes another.

Test accuracy is known only of what a search selected at its end: one point per method and protocol, at the epochs of
the search plus those of training what it selected once. At smaller budgets only validation scores are known: a curve
of the best score so far over the epochs trained so far, each distinct stage counted once, trial after trial in the
order in which the search began them. That order is the algorithm's: a grid in another order overtakes elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from co2l.reporting.protocols import ProtocolResult

Curve = Sequence[tuple[int, float]]  # epochs so far, ascending, and the best score so far


@dataclass(frozen=True)
class Finished:
    """A finished trial of a search."""

    stages: Mapping[Hashable, int]  # the epochs of each, by what tells it from others
    score: float | None  # of its configuration, if this was the last of its trials


def best_so_far(trials: Iterable[Finished]) -> tuple[tuple[int, float], ...]:
    """The curve of a search: a stage that an earlier trial trained costs nothing."""
    seen: dict[Hashable, int] = {}
    curve: list[tuple[int, float]] = []
    for trial in trials:
        seen.update(trial.stages)
        if trial.score is not None:
            best = max(trial.score, curve[-1][1]) if curve else trial.score
            curve.append((sum(seen.values()), best))
    return tuple(curve)


def at(curve: Curve, budget: int) -> float | None:
    """The best score that this many epochs found; None if no trial was finished with so few."""
    found = [score for epochs, score in curve if epochs <= budget]
    return found[-1] if found else None


@dataclass(frozen=True)
class Lead:
    """From this many epochs on, until the next one, `method` has the better score."""

    epochs: int
    method: str


def leads(curves: Mapping[str, Curve]) -> list[Lead]:
    """Which of two methods leads, from the first budget at which both have a score; a tie ends no lead."""
    (one, first), (other, second) = curves.items()
    found: list[Lead] = []
    for budget in sorted({epochs for curve in (first, second) for epochs, _ in curve}):
        mine, theirs = at(first, budget), at(second, budget)
        if mine is None or theirs is None or mine == theirs:
            continue
        leader = one if mine > theirs else other
        if not found or found[-1].method != leader:
            found.append(Lead(budget, leader))
    return found


def frontier(results: Iterable[ProtocolResult]) -> list[ProtocolResult]:
    """The tested results on one benchmark that nothing cheaper or equally cheap matches, the cheapest first."""
    found: list[ProtocolResult] = []
    for each in sorted(results, key=lambda each: (each.total.epochs, -each.accuracy().mean)):
        if not found or each.accuracy().mean > found[-1].accuracy().mean:
            found.append(each)
    return found
