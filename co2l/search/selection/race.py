"""Race: of the best few configurations, which go on to the next heat, and which of those that ran is the best.

Each heat tries those that are left with one more seed, the same for all, so two are compared on what they have in
common. Who is clearly worse than the best leaves, by a paired test, as in irace. Pure functions of the scores.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from co2l.search.space.document import Value
from co2l.search.space.space import Configuration

ALPHA = 0.05  # of the paired t-test, one-sided: how often chance alone makes one of two equals leave
PAIRS = 2  # seeds in common, until one may leave
FEWEST = 2  # one alone has nobody to race
WORTH_RACING = 16  # trials; a budget for fewer, without reuse, finds more if all of it goes to the search
SHRINK = 0.5  # each heat is planned for so many times as many as the one before
CONFIDENCE = 0.95  # of the interval


@dataclass(frozen=True)
class Runner:
    """A configuration that has all its trials with the space's seeds."""

    configuration: Configuration
    scores: Mapping[int, float]  # by seed, if all trials with it are finished

    def mean(self, seeds: Collection[int]) -> float:
        return math.fsum(self.scores[seed] for seed in seeds) / len(seeds)


@dataclass(frozen=True)
class Raced:
    """How sure the mean of what won a race is."""

    seeds: tuple[int, ...]  # that it is the mean over, the space's first
    low: float  # end of the 95% confidence interval of the mean, by Student's t over the seeds
    high: float
    runners: int  # configurations that were tried with a further seed
    alike: tuple[Mapping[str, Value], ...]  # those of them that cannot be told from it by the test

    def as_dict(self) -> dict[str, Any]:
        return {
            "seeds": list(self.seeds),
            "interval": [self.low, self.high],
            "runners": self.runners,
            "alike": [dict(each) for each in self.alike],
        }


def clearly_worse(runner: Runner, best: Runner) -> bool:
    """By a paired t-test over the seeds that both were tried with."""
    seeds = [seed for seed in best.scores if seed in runner.scores]
    leads = [best.scores[seed] - runner.scores[seed] for seed in seeds]
    if len(leads) < PAIRS or (mean := statistics.fmean(leads)) <= 0:
        return False
    if not (deviation := statistics.stdev(leads)):
        return True
    from scipy.special import stdtr  # only searches with a race wait for it

    return float(stdtr(len(leads) - 1, -mean / deviation * math.sqrt(len(leads)))) < ALPHA


def staying(runners: Sequence[Runner]) -> list[Runner]:
    """Who may go on of those that ran the same heats: the best first, without the clearly worse."""
    ordered = sorted(runners, key=lambda each: -each.mean(each.scores))  # of equal ones the first given
    return [each for each in ordered if not clearly_worse(each, ordered[0])]


def affordable(costs: Sequence[float], heats: int, epochs: float) -> int:
    """How many may run the next of so many heats, where the first n cost `costs[n]` in each; 0 for none.

    As many as leave enough for the later heats, which shrink; if not even the fewest do, these run while they can.
    """

    def planned(n: int) -> float:
        return math.fsum(costs[max(FEWEST, math.ceil(n * SHRINK**heat))] for heat in range(heats))

    fitting = [n for n in range(FEWEST, len(costs)) if costs[n] <= epochs]
    return max((n for n in fitting if n == FEWEST or planned(n) <= epochs), default=0)


def finalists(runners: Sequence[Runner], seeds: Sequence[int]) -> tuple[list[Runner], tuple[int, ...]]:
    """Who ran the last heat that several have finished, and the seeds so far; without one, all with those given."""
    further = sorted({seed for each in runners for seed in each.scores} - set(seeds))
    for heats in range(len(further), 0, -1):
        tried = (*seeds, *further[:heats])
        if len(left := [each for each in runners if each.scores.keys() >= set(tried)]) >= FEWEST:
            return left, tried
    return list(runners), tuple(seeds)


def raced(best: Runner, runners: Sequence[Runner], seeds: tuple[int, ...], given: Sequence[int]) -> Raced:
    """What is to be said of the best with these seeds, of which those given are the space's."""
    from scipy.special import stdtrit

    scores = [best.scores[seed] for seed in seeds]
    width = float(stdtrit(len(scores) - 1, (1 + CONFIDENCE) / 2)) * statistics.stdev(scores) / math.sqrt(len(scores))
    mean, ran = best.mean(seeds), [each for each in runners if each.scores.keys() > set(given)]
    others = [each for each in ran if each.configuration != best.configuration]
    alike = tuple(dict(each.configuration) for each in others if not clearly_worse(each, best))
    return Raced(seeds, mean - width, mean + width, len(ran), alike)
