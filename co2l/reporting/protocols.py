"""What selection protocols came to, as plain data: a result for each method and protocol, and what compares with what.

A report makes these from studies (`co2l.reporting.protocol_studies`); everything that is computed of them, ranks,
intervals, variances and costs, needs no more than this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from co2l.reporting.crossed import Crossed, Run, crossed

REFERENCE = "end"  # what the other protocols are compared with
KINDS = (REFERENCE, "first_k", "greedy", "transfer")  # in the order of tables
SCORE = "score"  # the mean over Class-IL and Task-IL, or Domain-IL alone: what every protocol selects by


@dataclass(frozen=True)
class Effort:
    """Epochs, each stage counted once, and hours of trials."""

    epochs: int = 0
    hours: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.epochs + other.epochs, self.hours + other.hours)


@dataclass(frozen=True)
class ProtocolResult:
    """One method, chosen by one protocol and tested."""

    benchmark: str  # that the choice was made on
    tested_on: str  # another one only under `transfer`
    method: str
    protocol: str  # its kind and what it was given, as "first_k 2"
    configuration: str  # identifies what was chosen, so that two protocols with the same choice are known
    accuracies: Mapping[Run, Mapping[str, float]]  # on test data in percent, by seed and order, then by scenario
    choosing: Effort  # the whole search
    training: Effort  # of what was chosen, once: the mean over the tested runs
    curve: tuple[tuple[int, float], ...] = ()  # epochs after each finished trial of the search, best score so far
    chosen: str = ""  # the values of the axes, as "eta=0.01, kappa=0.2"
    group: str = ""  # what it was selected for, as "buffer_size=50"
    unseen: tuple[str, ...] = ()  # axes that nothing the protocol saw depends on
    command: str = ""  # that tests it, if it is not tested
    left: int = 0  # trials of the search
    studies: tuple[str, ...] = ()  # where it comes from

    @property
    def kind(self) -> str:
        return self.protocol.split()[0]

    @property
    def total(self) -> Effort:
        return self.choosing + self.training

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(next(iter(self.accuracies.values()), ()))

    def by_run(self, scenario: str = SCORE) -> dict[Run, float]:
        return {run: accuracies[scenario] for run, accuracies in self.accuracies.items()}

    def accuracy(self, scenario: str = SCORE) -> Crossed:
        return crossed(self.by_run(scenario))

    def minus(self, other: ProtocolResult) -> Crossed | None:
        """The difference of the scores, over the runs that both have; None if they have none."""
        mine, theirs = self.by_run(), other.by_run()
        common = {run: mine[run] - theirs[run] for run in mine if run in theirs}
        return crossed(common) if common else None

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        runs = [{"seed": seed, "order": order, **found} for (seed, order), found in self.accuracies.items()]
        return {**asdict(self), "accuracies": runs}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        runs = [dict(run) for run in plain["accuracies"]]
        given = {
            **plain,
            "accuracies": {(run.pop("seed"), run.pop("order")): run for run in runs},
            "choosing": Effort(**plain["choosing"]),
            "training": Effort(**plain["training"]),
            "curve": tuple((epochs, score) for epochs, score in plain["curve"]),
            "unseen": tuple(plain["unseen"]),
            "studies": tuple(plain["studies"]),
        }
        return cls(**given)


@dataclass(frozen=True)
class Comparison:
    """All methods and protocols on one benchmark: one table."""

    benchmark: str
    group: str
    results: tuple[ProtocolResult, ...]  # by protocol, in the order of tables
    ends: Mapping[tuple[str, str, str], ProtocolResult] = field(default_factory=dict)  # chosen on whichever benchmark

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.protocol for each in self.results))

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.method for each in self.results))

    @property
    def tested(self) -> tuple[ProtocolResult, ...]:
        return tuple(each for each in self.results if each.accuracies)

    def under(self, protocol: str) -> dict[str, ProtocolResult]:
        """The tested methods under one protocol."""
        return {each.method: each for each in self.tested if each.protocol == protocol}

    def reference(self, result: ProtocolResult) -> ProtocolResult | None:
        """What the result is compared with: the method chosen by `end` on the data that both are tested on."""
        found = self.ends.get((result.tested_on, result.method, result.group))
        return None if found is result else found

    def missing(self) -> list[tuple[str, str]]:
        """The methods and protocols of which no study is known, though both have others."""
        known = {(each.method, each.protocol) for each in self.results}
        return [(m, p) for p in self.protocols for m in self.methods if (m, p) not in known]


def comparisons(results: Iterable[ProtocolResult]) -> list[Comparison]:
    """What stands in one table: choices on the same benchmark, for the same group."""
    found: dict[tuple[str, str], list[ProtocolResult]] = {}
    for each in sorted(results, key=_place_in_tables):
        found.setdefault((each.benchmark, each.group), []).append(each)
    tested = [each for several in found.values() for each in several if each.accuracies]
    ends = {(each.benchmark, each.method, each.group): each for each in tested if each.kind == REFERENCE}
    return [Comparison(benchmark, group, tuple(several), ends) for (benchmark, group), several in found.items()]


def _place_in_tables(each: ProtocolResult) -> tuple[object, ...]:
    kind = KINDS.index(each.kind) if each.kind in KINDS else len(KINDS)
    return each.benchmark, each.group, kind, each.protocol, each.method
