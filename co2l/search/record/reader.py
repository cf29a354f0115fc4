"""What searches and evaluations have left in a storage, read only, even while they run.

    reader = StudyReader("sqlite:///runs/study.db")
    reader.names()                          # every study; the evaluation of study NAME is called NAME.test
    stored = reader.study("seq_digits")     # Co2lError with the closest name if there is none
    stored.kind, stored.space               # "search" or "evaluation"; the space as it was parsed
    stored.entries[trial.key].result        # `Result.as_dict()` of a trial that is done, else None
    stored.cost(), stored.left, stored.importance(), stored.choosing()
    select(stored.space, stored.entries.values()).selected

`Entry.values` holds the values of the space's axes; `space.trial(entry.values, entry.seed).config` is the trial's
complete configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from co2l.errors import Co2lError, unknown
from co2l.search.record.choosing import Choosing, choosing
from co2l.search.record.earlier import Earlier
from co2l.search.record.entries import ENDED, Cost, Entry, of_seeds, total_cost
from co2l.search.record.importance import importance
from co2l.search.record.storage import EARLIER, connect_to_read, entry_of, no_studies, reaching, shown
from co2l.search.space.document import Document
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.plan import trial_count
from co2l.search.space.space import Space, parse

Kind = Literal["search", "evaluation"]


@dataclass(frozen=True)
class StoredStudy:
    name: str
    kind: Kind
    space: Space
    entries: Mapping[str, Entry]  # by the key of the trial, in the order of their first begin
    identity: str  # the digest of the space that it was started with, before it may have grown
    earlier: Earlier | None = None  # what it took from another study when it was begun
    changed: datetime | None = None  # when a trial last began or ended, in this machine's time

    @property
    def left(self) -> int:
        """How many trials have not ended, or how many points of a search that draws them."""
        searched = of_seeds(self.entries.values(), self.space.seeds)  # of a race, nobody knows how many are to come
        under_way = [entry for entry in self.entries.values() if entry.status not in ENDED]
        if (count := trial_count(self.space)) is not None:
            return count - len(searched) + len(under_way)
        drawn = {self.space.configuration(entry.values) for entry in self.entries.values()}
        unfinished = {self.space.configuration(entry.values) for entry in under_way}
        return max(0, (self.space.samples or 0) - len(drawn)) + len(unfinished)

    def cost(self) -> Cost:
        """What all attempts have cost so far."""
        return total_cost(self.entries.values())

    def choosing(self) -> Choosing:
        """What a search has cost by its protocol."""
        return choosing(self.space, self.entries.values())

    def importance(self) -> dict[str, float]:
        """How much each axis matters, the largest share first; empty for too few results."""
        return importance(self.space, self.entries.values())


class StudyReader:
    def __init__(self, storage: str) -> None:
        """`storage` is an SQLAlchemy URL; nothing is made there."""
        self._url, self._storage = shown(storage), connect_to_read(storage)

    def names(self) -> list[str]:
        return sorted(self._studies())

    def study(self, name: str) -> StoredStudy:
        studies = self._studies()
        if not studies:
            raise no_studies(self._url)
        if name not in studies:
            raise unknown("study", name, studies, where=self._url)
        with reaching(self._url):
            trials = self._storage.get_all_trials(self._storage.get_study_id_from_name(name), deepcopy=False)
        read = (entry_of(frozen) for frozen in trials)
        entries = {entry.key: entry for entry in read if entry is not None}
        kind, space = _space(studies[name], entries, f"study '{name}'")
        times = [time for each in trials for time in (each.datetime_start, each.datetime_complete) if time]
        identity = studies[name].get("identity") or space.digest
        return StoredStudy(name, kind, space, entries, identity, self.earlier(name), max(times, default=None))

    def earlier(self, name: str) -> Earlier | None:
        """What the study took from another when it was begun; None if nothing, or if there is no such study."""
        noted = self._studies().get(name, {}).get(EARLIER)
        return Earlier.noted(noted) if noted else None

    def _studies(self) -> dict[str, dict[str, Any]]:
        """What `StudyRecord.open` noted of each of our studies, by name: its space, and its limits."""
        with reaching(self._url):
            found = {each.study_name: each.user_attrs for each in self._storage.get_all_studies()}
        return {name: noted for name, noted in found.items() if "space" in noted}


def _space(noted: Mapping[str, Any], entries: Mapping[str, Entry], source: str) -> tuple[Kind, Space]:
    """The space as it was parsed: its canonical form, and the limits, on which no result depends."""
    canonical, limits = noted["space"], noted.get("limits") or {}
    document = {name: value for name, value in canonical.items() if name in Document.model_fields} | limits
    try:
        if canonical.get("kind") == "evaluation":
            document |= {"seeds": sorted({entry.seed for entry in entries.values()}) or [0], "samples": None}
            return "evaluation", parse(document, source, Evaluation)
        return "search", parse(document, source)
    except Co2lError as error:
        fix = "it was made by another version: read it with that one"
        if plugins := canonical.get("plugins"):
            fix = f"it needs the plug-in {' and '.join(plugins)}: install it, or add --import FILE"
        elif "benchmark_file" in canonical:
            fix = error.fix
        raise Co2lError(error.what, where=error.where, fix=fix) from None
