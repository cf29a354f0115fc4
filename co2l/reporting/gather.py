"""From studies to a report: every table and figure of the paper, filled or marked as a gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec

from co2l.errors import Co2lError
from co2l.reporting import orderings, paper_figures, paper_tables, searches, streams
from co2l.reporting.document import Block, Column, Figure, Gap, Item, Report, Section, Table, Text
from co2l.reporting.evaluated import Evaluated, evaluated
from co2l.reporting.experiments import EXPERIMENTS, FIGURE_3, FIGURE_4, TABLE_1, TABLE_2, TABLE_3, TABLE_6, Filled, fill
from co2l.reporting.formatting import benchmark_name
from co2l.reporting.paper import paper
from co2l.search.record.reader import StoredStudy, StudyReader

P = ParamSpec("P")

TITLES = {
    "orderings": "The paper's orderings",
    "streams": "Orders of classes and numbers of tasks",
    "matrices": "Accuracy matrices",
    "cost": "Cost and savings",
}


@dataclass(frozen=True)
class Read:
    """The studies in a storage."""

    studies: tuple[StoredStudy, ...]
    unreadable: tuple[str, ...]  # a line each
    evaluated: tuple[Evaluated, ...]
    root: str  # as commands name it
    store: str  # holds the features that evaluations exported

    @property
    def searches(self) -> tuple[StoredStudy, ...]:
        return tuple(study for study in self.studies if study.kind == "search")


def read(reader: StudyReader, names: Sequence[str], *, root: str, store: str) -> Read:
    """The named studies and their evaluations, or all studies. A name that does not exist is an error."""
    known = reader.names()
    wanted = list(known)
    if names:
        evaluations = [f"{name}.test" for name in names if f"{name}.test" in known]
        wanted = [name for name in known if name in {*names, *evaluations}]
        wanted += [name for name in dict.fromkeys(names) if name not in known]
    studies, unreadable = [], []
    for name in wanted:
        try:
            studies.append(reader.study(name))
        except Co2lError as error:
            if name not in known or name in names:
                raise
            unreadable.append(str(error))
    return Read(tuple(studies), tuple(unreadable), tuple(evaluated(studies)), root, store)


def report(found: Read, *, title: str, about: str, command: str = "") -> Report:
    root = found.root
    filled = {one: fill(one, found.evaluated) for one in EXPERIMENTS}
    other_streams = not all(each.own_stream for each in found.evaluated)
    of_paper = [
        _section("table_1", paper_tables.table_1, filled[TABLE_1], root),
        _section("table_2", paper_tables.ablation, TABLE_2, filled[TABLE_2], root),
        _section("table_3", paper_tables.ablation, TABLE_3, filled[TABLE_3], root),
        _section("table_4", _selected, found),
        _section("table_6", paper_tables.ablation, TABLE_6, filled[TABLE_6], root),
        _section("figure_3", paper_figures.figure_3, filled[FIGURE_3], root),
        _section("figure_4", paper_figures.figure_4, filled[FIGURE_4], root),
        _section("figure_5", paper_figures.figure_5, filled[TABLE_3], filled[TABLE_1], found.store, root),
    ]
    sections = (
        Section("overview", "At a glance", tuple(_overview(found, of_paper))),
        _section("orderings", _orderings, [each for several in filled.values() for each in several]),
        *of_paper,
        *([_section("streams", streams.tables, found.evaluated)] if other_streams else []),
        _section("matrices", paper_figures.matrices, filled[TABLE_1]),
        _searches(found),
        _section("cost", searches.cost, found.studies),
    )
    return Report(title, about, sections, command)


def _section(name: str, build: Callable[P, Sequence[Block]], *args: P.args, **kwargs: P.kwargs) -> Section:
    """Build a section; if that fails, the section is a gap, and the report goes on."""
    printed = paper().items.get(name)
    title = f"{printed.numbered} · {printed.title}" if printed else TITLES.get(name) or name.replace("-", " ", 1)
    try:
        return Section(name, title, tuple(build(*args, **kwargs)))
    except Exception as error:  # the other sections are still worth having
        return Section(name, title, (Gap(f"This section failed ({type(error).__name__}: {error})."),))


def _orderings(filled: Sequence[Filled]) -> list[Block]:
    return [orderings.table(orderings.findings(filled))]


def _overview(found: Read, of_paper: Sequence[Section]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            f"The paper's tables and figures with our numbers beside its own. The paper: {paper().source}, "
            f"{paper().seeds} seeds per number. A ○ in the contents marks a section with gaps."
        )
    ]
    rows = []
    for section in of_paper:
        gaps = sum(isinstance(block, Gap) for block in section.walk())
        held = any(isinstance(block, Table | Figure) for block in section.walk())
        state = Item("● filled", "good") if not gaps else Item("◐ partly", "plain") if held else Item("○ gap", "muted")
        rows.append((Item(section.title, link=section.name), state))
    blocks.append(Table("Where everything is", (Column("of the paper"), Column("here")), tuple(rows), words=2))
    if found.studies:
        blocks.append(_studies(found.studies))
    else:
        blocks.append(Gap("The storage has no readable study.", "python -m co2l.tune --space FILE"))
    blocks += [Gap(f"Not read: {line}.") for line in found.unreadable]
    if len(benchmarks := sorted({study.space.benchmark for study in found.studies})) > 1:
        names = ", ".join(benchmark_name(name) for name in benchmarks)
        blocks.append(Text(f"The studies cover {len(benchmarks)} benchmarks ({names}); each has its own tables."))
    return blocks


def _studies(studies: Sequence[StoredStudy]) -> Table:
    columns = ("study", "kind", "benchmark", "method", "done", "failed", "stopped", "left", "seeds")
    rows = []
    for study in studies:
        states = [entry.status for entry in study.entries.values()]
        counts = [states.count("done"), states.count("failed"), states.count("pruned"), study.left]
        rows.append(
            (
                Item(f"`{study.name}`"),
                Item(study.kind),
                Item(benchmark_name(study.space.benchmark)),
                Item(study.space.method_title),
                *(Item(str(n), "plain" if n or i == 0 else "muted") for i, n in enumerate(counts)),
                Item(str(len(study.space.seeds))),
            )
        )
    return Table("What was read", tuple(map(Column, columns)), tuple(rows), words=4)


def _selected(found: Read) -> list[Block]:
    if not found.searches:
        command = f"python -m co2l.tune --space search_spaces/seq_digits.yaml --root {found.root}"
        return [Gap("This storage has no search, so no settings were selected.", command)]
    return [block for study in found.searches for block in searches.selected_settings(study, found.root)]


def _searches(found: Read) -> Section:
    parts = tuple(_section(f"search-{study.name}", searches.course, study) for study in found.searches)
    blocks = () if parts else (Gap("This storage has no search.", "python -m co2l.tune --space FILE"),)
    return Section("searches", "Search history and importance", blocks, parts)
