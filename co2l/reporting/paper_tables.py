"""The sections of the paper's tables: every row of the paper with its number beside ours, and what was not run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from co2l.learning.metrics import LAST_DOMAIN, SCENARIOS
from co2l.reporting import figures
from co2l.reporting.document import Block, Column, Figure, Gap, Item, Table
from co2l.reporting.evaluated import Evaluated, differing
from co2l.reporting.experiments import BOUNDS, PROXIES, TABLE_1, Experiment, Filled, counterpart
from co2l.reporting.formatting import NONE, benchmark_name, interval, number, spread
from co2l.reporting.gaps import command, missing_rows, nothing_run
from co2l.reporting.paper import Printed, paper
from co2l.reporting.statistics import remark
from co2l.search.space.naming import named

OURS = {"co2l", "d", "asymmetric", "ird"}  # Co²L, as each table calls it
NOT_RUN = Item("not run", "muted")


def table_1(filled: Sequence[Filled], root: str) -> list[Block]:
    blocks: list[Block] = []
    for each in filled:
        printed = each.experiment.printed
        sizes = each.buffers() if each.benchmark in PROXIES else printed.buffers + tuple(
            size for size in each.buffers() if size not in printed.buffers
        )  # fmt: skip
        blocks.append(paper_table(each, buffers=sizes))
        blocks += missing_rows(each, sizes, root)
    absent = [name for name in paper().benchmarks if name not in {each.benchmark for each in filled}]
    blocks += [
        Gap(f"Nothing was evaluated on {benchmark_name(name)}.", command(TABLE_1, root, name)) for name in absent
    ]
    return blocks


def ablation(experiment: Experiment, filled: Sequence[Filled], root: str) -> list[Block]:
    if not filled:
        what = f"No evaluation has two rows of {experiment.printed.numbered}, so there is nothing to compare."
        return [nothing_run(experiment, what, root)]
    blocks: list[Block] = []
    for each in filled:
        blocks.append(paper_table(each))
        blocks += missing_rows(each, each.buffers(), root)
        blocks += _courses(each)
    return blocks


def _courses(filled: Filled) -> list[Block]:
    """How each row of a table develops: accuracy and forgetting after each task."""
    rows, blocks = filled.experiment.printed.rows, list[Block]()
    scenario = filled.scenarios[0]
    for buffer in filled.buffers():
        measured = {row: each for row in rows for each in filled.of(row, buffer)[:1] if each.matrices(scenario)}
        lines, several = {rows[row]: each.matrices(scenario) for row, each in measured.items()}, list(measured.values())
        if not lines:
            blocks.append(Gap(f"No accuracy matrix was measured with buffer {buffer} (`matrix_probe=none`)."))
            continue
        caption = (
            f"{SCENARIOS[scenario]} accuracy and forgetting from task to task, {filled.experiment.printed.numbered} on "
            f"{benchmark_name(filled.benchmark)}, buffer {buffer}; band: ± 1 standard deviation over seeds. All points "
            f"are by the {_probes(several, 'matrix')}; the table above is by the {_probes(several, 'final')}."
        )
        name = f"{filled.file_name(filled.experiment.item)}-{buffer}"
        said = f"a line each for {', '.join(lines)}"
        blocks.append(Figure(name, caption, figures.courses(lines), said))
    return blocks


def _probes(several: Iterable[Evaluated], which: Literal["final", "matrix"]) -> str:
    return " or ".join(sorted({each.probe(which) for each in several}))


def paper_table(filled: Filled, *, buffers: Sequence[int | str] | None = None) -> Table:
    """Every row of the paper's table for every buffer size, run or not, with the paper's number beside ours.

    A scenario that the paper's table lacks shows only ours, and a proxy shows no difference from the paper.
    """
    printed, ours = filled.experiment.printed, filled.buffers()
    stands_in = filled.benchmark in PROXIES
    where = PROXIES.get(filled.benchmark, filled.benchmark)
    shown = {name: 1 if not printed.has(where, name) else 2 if stands_in else 3 for name in filled.scenarios}
    rows: list[tuple[Item, ...]] = []
    for buffer in buffers or ours:
        _, size = counterpart(filled.benchmark, buffer, ours)
        best = _best(filled, buffer)
        for row, label in printed.rows.items():
            several = filled.of(row, buffer)
            for each in several or (None,):
                items = [Item(str(buffer)), _label(label, each, differing(several), strong=row in OURS)]
                for name in filled.scenarios:
                    theirs = printed.value(size, row, where, name)
                    numbers = _numbers(each, name, theirs, best.get(name)) if filled.can_have(row) else [NONE] * 3
                    if stands_in and theirs:
                        numbers[1] = replace(numbers[1], below=f"{benchmark_name(where)}, buffer {size}")
                    items += numbers[: shown[name]]
                rows.append((*items, Item(str(len(each.results))) if each else NONE))
    for row, label in filled.unprinted().items():
        several = filled.rows.get(row, ())
        for each in sorted(several, key=lambda each: (isinstance(each.buffer, str), each.buffer)):
            items = [Item("none" if row in BOUNDS else str(each.buffer)), _label(label, each, differing(several))]
            for name in filled.scenarios:
                items += _numbers(each, name, None, None)[: shown[name]]
            rows.append((*items, Item(str(len(each.results)))))
    columns = [Column("buffer"), Column("row")]
    for name in filled.scenarios:
        heads = [Column(text, SCENARIOS[name]) for text in ("ours", "paper", "difference")]
        columns += heads[: shown[name]]
    columns.append(Column("seeds"))
    title = f"{printed.numbered} on {benchmark_name(filled.benchmark)}: accuracy after the last task in percent"
    return Table(title, tuple(columns), tuple(rows), words=2, notes=_notes(filled))


def _label(label: str, each: Evaluated | None, apart: Sequence[str], *, strong: bool = False) -> Item:
    own = named({name: each.settings[name] for name in apart}) if each else ""
    return Item(label, "strong" if strong else "plain", below=own)


def _best(filled: Filled, buffer: int | str) -> dict[str, float]:
    """The highest mean of each scenario, bounds excluded."""
    found = [each for row in filled.rows if row not in BOUNDS for each in filled.of(row, buffer)]
    return {name: max((each.summary(name).mean for each in found), default=0.0) for name in filled.scenarios}


def _numbers(each: Evaluated | None, scenario: str, printed: Printed | None, best: float | None) -> list[Item]:
    """Ours, the paper's, and the difference."""
    theirs = Item(spread(printed), "paper") if printed else NONE
    if each is None:
        return [NOT_RUN, theirs, NONE]
    summary = each.summary(scenario)
    ours = Item(spread(summary), "strong" if summary.mean == best else "plain", below=interval(summary))
    return [ours, theirs, Item(number(summary.mean - printed.mean, sign=True)) if printed else NONE]


def _notes(filled: Filled) -> tuple[str, ...]:
    fewest = min(len(each.results) for several in filled.rows.values() for each in several)
    notes = [
        f"From {', '.join(f'`{study}`' for study in filled.studies)}; measured by the "
        f"{_probes(itertools.chain(*filled.rows.values()), 'final')}. Mean ± sample standard deviation (n − 1) "
        "over seeds; below it the 95% bootstrap interval of the mean. Bold: our highest."
    ]
    if LAST_DOMAIN in filled.scenarios:
        notes.append(
            "Domain-IL is the mean over all domains, which is how the baselines' release measures. The test loader of "
            "Co²L's release rotates every domain by the last angle, so the paper's number for Co²L is very likely that "
            "of the last domain. Compare either column, but within one."
        )
    if filled.benchmark in PROXIES:
        notes.append(
            f"`{filled.benchmark}` is a proxy: the paper's column is for another benchmark, and shows the order of its "
            "rows. Levels are not comparable, so there is no difference."
        )
    if remark(fewest):
        notes.append(f"{remark(fewest)[0].upper()}{remark(fewest)[1:]}.")
    return tuple(notes)
