"""What searches and evaluations have left in a storage, read only, also while they run.

    archive = Archive("sqlite:///runs/study.db")
    archive.names()                          # every study, an evaluation of study NAME being called NAME.test
    stored = archive.study("seq_digits")     # Co2lError with the closest name if there is none
    stored.kind, stored.space                # "search" or "evaluation"; the space as it was parsed
    stored.entries[cell.key].result          # `Result.as_dict()` of a cell that is done, else None
    stored.choice().selected, stored.totals(), stored.left, stored.figures()

A cell's `values` in `Entry.values` are those of the space's axes; `space.cell(entry.values, entry.seed).config` is its
complete configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from co2l.errors import Co2lError, unknown
from co2l.search.document import Document
from co2l.search.evaluation import Evaluation
from co2l.search.reports import Entry, Totals, configuration, totals
from co2l.search.selection import Choice, select
from co2l.search.space import Space, parse
from co2l.search.study import Reader, no_studies

Kind = Literal["search", "evaluation"]


@dataclass(frozen=True)
class StoredStudy:
    name: str
    kind: Kind
    space: Space
    entries: Mapping[str, Entry]  # by the key of the cell, in the order of their first begin
    _reader: Reader = field(repr=False)

    @property
    def left(self) -> int:
        """How many cells, or of a search that draws them how many samples, have not ended."""
        under_way = [entry for entry in self.entries.values() if entry.status in ("pending", "running")]
        if self.space.algorithm == "grid":
            return (self.space.size or 0) - len(self.entries) + len(under_way)
        drawn = {configuration(self.space, entry.values) for entry in self.entries.values()}
        unfinished = {configuration(self.space, entry.values) for entry in under_way}
        return max(0, (self.space.samples or 0) - len(drawn)) + len(unfinished)

    def choice(self) -> Choice:
        """The configurations with the highest score, by the selection that the space asks for."""
        return select(self.space, self.entries.values())

    def totals(self) -> Totals:
        """The price paid so far."""
        return totals(self.entries.values())

    def figures(self) -> dict[str, Any]:
        """Optuna's plots as Matplotlib figures by name, without those that so few results cannot fill."""
        return self._reader.figures(self.name)

    def importance(self) -> dict[str, float]:
        """What part of the spread of the scores each axis explains; empty if the results are too few to tell."""
        return self._reader.importance(self.name)


class Archive:
    def __init__(self, storage: str) -> None:
        """`storage` is an SQLAlchemy URL; nothing is made there."""
        self._reader = Reader(storage)

    def names(self) -> list[str]:
        return sorted(self._reader.studies())

    def study(self, name: str) -> StoredStudy:
        studies = self._reader.studies()
        if not studies:
            raise no_studies(self._reader.place)
        if name not in studies:
            raise unknown("study", name, studies, where=self._reader.place)
        entries = self._reader.entries(name)
        kind, space = _space(studies[name], entries, f"study '{name}'")
        return StoredStudy(name, kind, space, entries, self._reader)


def _space(noted: Mapping[str, Any], entries: Mapping[str, Entry], source: str) -> tuple[Kind, Space]:
    """The space as it was parsed: its canonical form, and what that leaves out since no result depends on it."""
    canonical, limits = noted["space"], noted.get("limits") or {"samples": None, "retries": 0}
    document = {name: value for name, value in canonical.items() if name in Document.model_fields} | limits
    if document.get("algorithm", "grid") != "grid" and document["samples"] is None:
        document["samples"] = max(1, len(entries))
    try:
        if canonical.get("kind") == "evaluation":
            document |= {"seeds": sorted({entry.seed for entry in entries.values()}) or [0], "samples": None}
            return "evaluation", parse(document, source, Evaluation)
        return "search", parse(document, source)
    except Co2lError as error:
        fix = "it was made by another version: read it with that one"
        raise Co2lError(error.what, where=error.where, fix=fix) from None
