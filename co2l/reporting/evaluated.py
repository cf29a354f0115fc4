"""What was evaluated: configurations, each with the results of its seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from co2l.learning.config import STREAM, RunConfig
from co2l.learning.metrics import Matrix, probe_title, reported
from co2l.reporting.statistics import Summary, summarise
from co2l.search.record.reader import StoredStudy
from co2l.search.space.trial import Trial


@dataclass(frozen=True)
class Evaluated:
    """One configuration, trained on the full training set and tested with one or more seeds."""

    benchmark: str
    method: str
    settings: Mapping[str, Any]  # complete, defaults included
    results: Mapping[int, Mapping[str, Any]]  # by seed, as `Result.as_dict()`
    studies: tuple[str, ...]  # the evaluations it comes from
    own_stream: bool = True  # whether tasks and order are the benchmark's own

    @property
    def scenarios(self) -> tuple[str, ...]:
        """What its accuracy is measured by: on rotated benchmarks, by the mean over domains and by the last one."""
        return tuple(reported(next(iter(self.results.values()))))

    @property
    def buffer(self) -> int | str:
        """The buffer size, or "unlimited"; 0 for a method that has none."""
        size: int | str = self.settings.get("buffer_size", 0)
        return size

    def accuracies(self, scenario: str) -> dict[int, float]:
        """The mean final accuracy over all tasks, or that of the last domain, by seed."""
        return {seed: float(reported(result)[scenario]) for seed, result in self.results.items()}

    def summary(self, scenario: str) -> Summary:
        return summarise(list(self.accuracies(scenario).values()))

    def matrices(self, scenario: str) -> list[Matrix]:
        """The accuracy matrices of all seeds; empty if not measured."""
        return [result["matrix"][scenario] for result in self.results.values() if result["matrix"].get(scenario)]

    def probe(self, which: Literal["final", "matrix"]) -> str:
        """Who measured the accuracies after the last task, or the matrix, as people read it."""
        return probe_title(next(iter(self.results.values())), which)

    def exported(self, kind: str) -> str | None:
        """The store's key of what the first seed exported: its "classifier" or its "features"."""
        left = [result["exports"][kind] for result in self.results.values() if kind in result.get("exports", {})]
        return left[0] if left else None

    def mean_matrix(self, scenario: str) -> Matrix:
        return mean_of(self.matrices(scenario))


def mean_of(matrices: Sequence[Matrix]) -> Matrix:
    """The entry-wise mean of accuracy matrices of the same shape."""
    return [[sum(values) / len(values) for values in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)]


def evaluated(studies: Iterable[StoredStudy]) -> list[Evaluated]:
    """The configurations of all evaluations among the studies; a configuration shared by several appears once."""
    found: dict[str, Evaluated] = {}
    for study in studies:
        if study.kind != "evaluation":
            continue
        for entry in study.entries.values():
            if entry.result is None or entry.status != "done":
                continue
            trial = study.space.trial(entry.values, entry.seed)
            config, name = trial.config, _identity(trial)
            known = found.get(name)
            found[name] = Evaluated(
                config.benchmark,
                config.method,
                {**config.settings.model_dump(mode="json"), **_stream(config)},
                dict(sorted({**(known.results if known else {}), entry.seed: entry.result}.items())),
                tuple(dict.fromkeys([*(known.studies if known else ()), study.name])),
                not config.settings.model_dump(include=set(STREAM)),
            )
    return list(found.values())


def _stream(config: RunConfig) -> dict[str, Any]:
    """What is not written of the settings where it is the benchmark's own."""
    return {name: getattr(config.settings, name) for name in STREAM}


def _identity(trial: Trial) -> str:
    described = trial.config.as_dict()
    return repr((described["benchmark"], described["method"], sorted(described["settings"].items())))


def differing(several: Sequence[Evaluated]) -> tuple[str, ...]:
    """The settings in which they differ."""
    names = {name: None for each in several for name in each.settings}
    return tuple(name for name in names if len({repr(each.settings.get(name)) for each in several}) > 1)
