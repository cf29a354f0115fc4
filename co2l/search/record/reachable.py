"""Which keys in a store the trials of studies may still need: all of them, whether they have ended or not begun.

A trial that has ended may be trained further by a study that grows, and shares its first stages with others, so its
keys count as long as its study is in a record. Keys are computed anew from each trial's configuration. If that gives
another trial than the record names, because other code made it, nobody can say what it needs, and that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from co2l.errors import Co2lError
from co2l.learning.config import RunConfig, Scope
from co2l.learning.export import KINDS
from co2l.learning.methods import METHODS
from co2l.learning.metrics import PROBES
from co2l.learning.store import StoredFile
from co2l.search.record.reader import StoredStudy
from co2l.search.space.plan import listed_trials, trial_count
from co2l.search.space.trial import Trial


@dataclass(frozen=True)
class Reachable:
    """What some runs need of a store."""

    keys: set[str] = field(default_factory=set)
    trials: set[str] = field(default_factory=set)  # keys of those that may have a store for themselves

    def needs(self, file: StoredFile) -> bool:
        return file.trial in self.trials if file.trial else file.key in self.keys

    def __or__(self, other: Reachable) -> Reachable:
        return Reachable(self.keys | other.keys, self.trials | other.trials)


def reachable(studies: Iterable[StoredStudy]) -> Reachable:
    """What the trials of these studies may still need."""
    found = Reachable()
    for study in studies:
        for trial, probes in _trials(study):
            found.keys.update(keys_of(trial.config, probes))
            found.trials.add(trial.key)
    return found


def keys_of(config: RunConfig, probes: Iterable[str] = ()) -> set[str]:
    """Every key that a run may have in a store: states, accuracies by any probe, exports."""
    settings = config.settings.within({Scope.PROBE})
    named = {value for value in settings.values() if isinstance(value, str)}  # a method may name its own probe
    matrix = METHODS[config.method].matrix_probe(config.settings)
    measured = {*PROBES, *probes, *named, *([matrix] if matrix else [])}
    exported = {f"{probe} {kind}" for probe in measured for kind in KINDS}
    return config.keys_in_store(measured | exported)


def _trials(study: StoredStudy) -> Iterator[tuple[Trial, set[str]]]:
    """Each trial of the study once, with the probes that its result names."""
    seen = set()
    for entry in study.entries.values():
        trial = study.space.trial(entry.values, entry.seed)
        if trial.key != entry.key:
            fix = "use the version that made it, or delete it with: co2l rm"
            raise Co2lError(
                "was made by other code, so what it needs is unknown", where=f"study '{study.name}'", fix=fix
            )
        seen.add(trial.key)
        yield trial, {probe for probe in ((entry.result or {}).get("probes") or {}).values() if probe}
    greedy = study.space.selection.protocol.greedy  # later rounds go on from what is in the record
    if greedy is None and trial_count(study.space) is not None:
        yield from ((trial, set[str]()) for trial in listed_trials(study.space) if trial.key not in seen)
