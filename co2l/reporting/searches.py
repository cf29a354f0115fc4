"""What searches found and cost: selected settings beside the paper's, history, importance, price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure as Drawing

from co2l.reporting import figures
from co2l.reporting.document import Block, Cell, Column, Figure, Gap, Table, Text
from co2l.reporting.experiments import STAND_INS, counterpart
from co2l.reporting.paper import paper
from co2l.reporting.tables import NONE, benchmark_name, number
from co2l.search.archive import StoredStudy
from co2l.search.document import Range
from co2l.search.selection import Choice, Selected
from co2l.search.space import Space

LISTED = 5  # configurations without a result that are named; of the others the number is given


def selected_settings(study: StoredStudy, root: str) -> list[Block]:
    """What was selected beside what the paper chose, or why nothing was."""
    choice, blocks = study.choice(), list[Block]()
    if study.left:
        what = f"Study `{study.name}` is unfinished: {study.left} of its cells are left, so the choice may change."
        blocks.append(Gap(what, f"python -m co2l.tune --space FILE --study {study.name} --root {root}"))
    if not choice.selected:
        reason = "; ".join(choice.missing) or "no cell has ended"
        command = "" if study.left else f"python -m co2l.tune --space FILE --study {study.name} --root {root}"
        return [*blocks, Gap(f"Study `{study.name}` has no selection: {reason}.", command)]
    return [*blocks, _table(study, choice)]


def _table(study: StoredStudy, choice: Choice) -> Table:
    space, chosen = study.space, choice.selected
    groups = {name for each in chosen for name in each.group}
    printed = [_printed(space, each, chosen) for each in chosen]
    names = [name for name in space.axes if name not in groups]
    names += [name for name in dict.fromkeys(name for each in printed for name in each) if name not in names]
    tried = paper().tried(STAND_INS.get(space.benchmark, space.benchmark)) if space.method == "co2l" else {}
    rows = []
    for name in names:
        cells = [Cell(name), Cell(_axis(space.axes.get(name), chosen[0].settings.get(name)))]
        for each, theirs in zip(chosen, printed, strict=True):
            own = each.settings.get(name)
            cells += [Cell(_text(own), "strong"), Cell(_text(theirs[name]), "paper") if name in theirs else NONE]
        cells.append(Cell(", ".join(map(_text, tried[name])), "paper") if name in tried else NONE)
        rows.append(tuple(cells))
    cells = [Cell("validation score (%)", "muted"), NONE]
    for each in chosen:
        cells += [Cell(number(each.score)), NONE]
    rows.append((*cells, NONE))
    columns = [Column("setting"), Column("tried here")]
    for each in chosen:
        group = ", ".join(f"{name} {value}" for name, value in each.group.items()) or "all"
        columns += [Column("selected", group), Column("paper", group)]
    columns.append(Column("the paper tried"))
    notes = [
        f"Selected by {space.objective} on {space.validation.fraction:.0%} of the training samples, "
        f"{len(study.entries)} cells begun, seeds {', '.join(map(str, space.seeds))}."
    ]
    if space.benchmark in STAND_INS:
        other = paper().benchmarks[STAND_INS[space.benchmark]]
        notes.append(f"The paper has no `{space.benchmark}`; beside it stands what it chose for {other}.")
    if choice.left_out:
        more = f" and {len(choice.left_out) - LISTED} more" if len(choice.left_out) > LISTED else ""
        notes.append(f"Not among the candidates: {'; '.join(choice.left_out[:LISTED])}{more}.")
    notes += [f"Nothing selected for {line}." for line in choice.missing]
    title = f"Study `{study.name}`: {space.method} on {benchmark_name(space.benchmark)}"
    return Table(title, tuple(columns), tuple(rows), words=2, notes=tuple(notes))


def _printed(space: Space, each: Selected, all_of_them: Sequence[Selected]) -> dict[str, Any]:
    sizes = [other.settings.get("buffer_size", 0) for other in all_of_them]  # upper and lower bound have no buffer
    benchmark, buffer = counterpart(space.benchmark, each.settings.get("buffer_size", 0), sizes)
    return paper().chosen(benchmark, space.method, buffer)


def _axis(axis: tuple[Any, ...] | Range | None, fixed: object) -> str:
    if axis is None:
        return f"{_text(fixed)} (fixed)"
    if isinstance(axis, Range):
        return f"{_text(axis.low)} to {_text(axis.high)}{', log' if axis.log else ''}"
    return ", ".join(map(_text, axis))


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def history(study: StoredStudy) -> Drawing:
    """The score of every cell, or the last one before it was stopped."""
    entries = list(study.entries.values())
    at_rung = [max(entry.rungs.items())[1] if entry.rungs else None for entry in entries]
    stopped = [at if entry.status == "pruned" else None for at, entry in zip(at_rung, entries, strict=True)]
    return figures.history([entry.score for entry in entries], stopped, study.space.objective)


def course(study: StoredStudy) -> list[Block]:
    """How a search went: its history, and which settings mattered."""
    blocks: list[Block] = []
    done = [entry.score for entry in study.entries.values() if entry.score is not None]
    if done:
        caption = f"Every cell of `{study.name}` by its {study.space.objective}, and the best so far."
        said = f"{len(done)} finished cells, the best with {max(done):.2f}"
        blocks.append(Figure(f"history-{study.name}", caption, history(study), said))
    else:
        blocks.append(Gap(f"No cell of `{study.name}` has a result yet, so there is no history."))
    shares = study.importance()
    if shares:
        caption = "What part of the spread of the scores each setting explains (fANOVA on the finished cells)."
        said = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        blocks.append(Figure(f"importance-{study.name}", caption, figures.importance(shares), said))
    else:
        blocks.append(Gap(f"The importance of the settings of `{study.name}` needs more than one finished cell each."))
    return blocks


def price(studies: Sequence[StoredStudy]) -> list[Block]:
    """What was paid, and what stages that were trained once and used again have saved."""
    if not studies:
        return [Gap("No study was read, so nothing was paid.")]
    columns = ("study", "kind", "cells", "epochs trained", "epochs reused", "saved", "trial hours")
    rows, sums = [], [0, 0, 0, 0.0]
    for study in studies:
        spent = study.totals()
        ended = sum(entry.status == "done" for entry in study.entries.values())
        numbers = (ended, spent.epochs_trained, spent.epochs_reused, spent.seconds / 3600)
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        rows.append((Cell(f"`{study.name}`"), Cell(study.kind), *_spent(*numbers)))
    if len(rows) > 1:
        rows.append((Cell("all", "strong"), Cell(""), *_spent(int(sums[0]), int(sums[1]), int(sums[2]), sums[3])))
    notes = (
        "Saved: the share of the cells' epochs that needed no training, since another cell, or an attempt before, had "
        "trained that stage. Trial hours are those of one trial after the other.",
    )
    table = Table("Price paid and saved", tuple(map(Column, columns)), tuple(rows), words=2, notes=notes)
    return [Text("Failed and stopped attempts are included."), table]


def _spent(cells: int, trained: int, reused: int, hours: float) -> tuple[Cell, ...]:
    share = reused / (trained + reused) if trained + reused else 0.0
    return Cell(f"{cells:,}"), Cell(f"{trained:,}"), Cell(f"{reused:,}"), Cell(f"{share:.0%}"), Cell(f"{hours:.2f}")
