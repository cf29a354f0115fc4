"""What searches found and what they cost: selected settings beside the paper's, history, importance, cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from co2l.reporting import figures
from co2l.reporting.document import Block, Column, Figure, Gap, Item, Table, Text
from co2l.reporting.experiments import PROXIES, counterpart
from co2l.reporting.formatting import NONE, benchmark_name, number
from co2l.reporting.paper import paper
from co2l.search.record.importance import described
from co2l.search.record.reader import StoredStudy
from co2l.search.selection.rule import Choice, Selected, select, told_apart
from co2l.search.space.document import Range
from co2l.search.space.space import Space

LISTED = 5  # how many configurations without a result to name; the others are counted


def selected_settings(study: StoredStudy, root: str) -> list[Block]:
    """What was selected beside what the paper chose, or why nothing was."""
    choice, blocks = select(study.space, study.entries.values()), list[Block]()
    if study.left:
        what = f"Study `{study.name}` is unfinished: {study.left} of its trials are left, so the selection may change."
        blocks.append(Gap(what, f"python -m co2l.tune --space FILE --study {study.name} --root {root}"))
    if not choice.selected:
        reason = "; ".join(choice.missing) or "no trial has ended"
        command = "" if study.left else f"python -m co2l.tune --space FILE --study {study.name} --root {root}"
        return [*blocks, Gap(f"Study `{study.name}` has no selection: {reason}.", command)]
    return [*blocks, _table(study, choice)]


def _table(study: StoredStudy, choice: Choice) -> Table:
    space, chosen = study.space, choice.selected
    groups = {name for each in chosen for name in each.group}
    printed = [_printed(space, each, chosen) for each in chosen]
    names = [name for name in space.axes if name not in groups]
    names += [name for name in dict.fromkeys(name for each in printed for name in each) if name not in names]
    tried = paper().tried(PROXIES.get(space.benchmark, space.benchmark)) if space.method_title == "co2l" else {}
    rows = []
    for name in names:
        items = [Item(name), Item(_axis(space.axes.get(name), chosen[0].settings.get(name)))]
        for each, theirs in zip(chosen, printed, strict=True):
            own = each.settings.get(name)
            items += [Item(_text(own), "strong"), Item(_text(theirs[name]), "paper") if name in theirs else NONE]
        items.append(Item(", ".join(map(_text, tried[name])), "paper") if name in tried else NONE)
        rows.append(tuple(items))
    items = [Item("validation score (%)", "muted"), NONE]
    for each in chosen:
        items += [Item(number(each.score)), NONE]
    rows.append((*items, NONE))
    columns = [Column("setting"), Column("tried here")]
    for each in chosen:
        group = ", ".join(f"{name} {value}" for name, value in each.group.items()) or "all"
        columns += [Column("selected", group), Column("paper", group)]
    columns.append(Column("the paper tried"))
    notes = [
        f"Selected by {space.objective} on {space.validation.fraction:.0%} of the training examples, "
        f"{len(study.entries)} trials begun, seeds {', '.join(map(str, space.seeds))}."
    ]
    notes += [f"{line[0].upper()}{line[1:]}." for line in told_apart(chosen)]
    if space.benchmark in PROXIES:
        other = paper().benchmarks[PROXIES[space.benchmark]]
        notes.append(f"The paper does not use `{space.benchmark}`; its column shows what it chose for {other}.")
    if choice.left_out:
        more = f" and {len(choice.left_out) - LISTED} more" if len(choice.left_out) > LISTED else ""
        notes.append(f"Not among the candidates: {'; '.join(choice.left_out[:LISTED])}{more}.")
    notes += [f"Nothing selected for {line}." for line in choice.missing]
    title = f"Study `{study.name}`: {space.method_title} on {benchmark_name(space.benchmark)}"
    return Table(title, tuple(columns), tuple(rows), words=2, notes=tuple(notes))


def _printed(space: Space, each: Selected, all_of_them: Sequence[Selected]) -> dict[str, Any]:
    sizes = [other.settings.get("buffer_size", 0) for other in all_of_them]  # the bounds have no buffer
    benchmark, buffer = counterpart(space.benchmark, each.settings.get("buffer_size", 0), sizes)
    return paper().chosen(benchmark, space.method_of(each.values), buffer)


def _axis(axis: tuple[Any, ...] | Range | None, fixed: object) -> str:
    if axis is None:
        return f"{_text(fixed)} (fixed)"
    if isinstance(axis, Range):
        return f"{_text(axis.low)} to {_text(axis.high)}{', log' if axis.log else ''}"
    return ", ".join(map(_text, axis))


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def course(study: StoredStudy) -> list[Block]:
    """How a search went: its history, and which settings mattered."""
    blocks: list[Block] = []
    entries = list(study.entries.values())
    done = [entry.score for entry in entries if entry.score is not None]
    if done:
        caption = f"Every trial of `{study.name}` by its {study.space.objective}, and the best so far."
        said = f"{len(done)} finished trials, the best with {max(done):.2f}"
        blocks.append(Figure(f"history-{study.name}", caption, figures.history(entries, study.space.objective), said))
    else:
        blocks.append(Gap(f"No trial of `{study.name}` has a result yet, so there is no history."))
    shares = study.importance()
    if shares:
        caption = f"How much each setting matters: {described(study.space)}, over the finished trials."
        said = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        blocks.append(
            Figure(f"importance-{study.name}", caption, figures.importance(shares, described(study.space)), said)
        )
    else:
        blocks.append(Gap(f"The importance of each setting of `{study.name}` needs more than one finished trial."))
    return blocks


def cost(studies: Sequence[StoredStudy]) -> list[Block]:
    """What studies cost, and what reusing stages saved."""
    if not studies:
        return [Gap("No study was read, so there is no cost.")]
    columns = ("study", "kind", "trials", "epochs trained", "epochs reused", "saved", "trial hours")
    rows, sums = [], [0, 0, 0, 0.0]
    for study in studies:
        spent = study.cost()
        ended = sum(entry.status == "done" for entry in study.entries.values())
        numbers = (ended, spent.epochs_trained, spent.epochs_reused, spent.hours)
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        rows.append((Item(f"`{study.name}`"), Item(study.kind), *_spent(*numbers)))
    if len(rows) > 1:
        rows.append((Item("all", "strong"), Item(""), *_spent(int(sums[0]), int(sums[1]), int(sums[2]), sums[3])))
    notes = (
        "Saved: the share of the trials' epochs that needed no training, because another trial or an earlier attempt "
        "had trained that stage. Trial hours add up over trials.",
    )
    table = Table("Cost and savings", tuple(map(Column, columns)), tuple(rows), words=2, notes=notes)
    return [Text("This includes failed and stopped attempts."), table]


def _spent(trials: int, trained: int, reused: int, hours: float) -> tuple[Item, ...]:
    share = reused / (trained + reused) if trained + reused else 0.0
    return Item(f"{trials:,}"), Item(f"{trained:,}"), Item(f"{reused:,}"), Item(f"{share:.0%}"), Item(f"{hours:.2f}")
