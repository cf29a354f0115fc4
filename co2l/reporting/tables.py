"""A table of the paper with our numbers in its rows."""

from __future__ import annotations

from collections.abc import Sequence

from co2l.reporting.document import Cell, Column, Table
from co2l.reporting.evaluated import Evaluated, differing
from co2l.reporting.experiments import BOUNDS, STAND_INS, Filled, counterpart
from co2l.reporting.paper import Printed, paper
from co2l.reporting.statistics import Summary, remark
from co2l.search.figures import SCENARIOS

OURS = {"co2l", "d", "asymmetric", "ird"}  # Co²L, as each table calls it
NOT_RUN = Cell("not run", "muted")
NONE = Cell("–", "muted")


def number(value: float, *, sign: bool = False) -> str:
    return f"{value:+.2f}".replace("-", "−") if sign else f"{value:.2f}".replace("-", "−")


def spread(summary: Summary | Printed) -> str:
    """mean ± std, or the mean alone if there is one seed."""
    return number(summary.mean) if summary.std is None else f"{number(summary.mean)} ± {number(summary.std)}"


def interval(summary: Summary) -> str:
    return "" if summary.interval is None else f"[{number(summary.interval[0])}, {number(summary.interval[1])}]"


def paper_table(filled: Filled, *, buffers: Sequence[int | str] | None = None) -> Table:
    """Every row of the paper's table for every buffer size, run or not, and the paper's number beside ours.

    A scenario that the paper's table does not have stands alone, and a small stand-in is not subtracted from it.
    """
    exhibit, ours = filled.experiment.printed, filled.buffers()
    stands_in = filled.benchmark in STAND_INS
    where = STAND_INS.get(filled.benchmark, filled.benchmark)
    shown = {name: 1 if not exhibit.has(where, name) else 2 if stands_in else 3 for name in filled.scenarios}
    rows: list[tuple[Cell, ...]] = []
    for buffer in buffers or ours:
        _, size = counterpart(filled.benchmark, buffer, ours)
        best = _best(filled, buffer)
        for row, label in exhibit.rows.items():
            several = filled.of(row, buffer)
            for each in several or (None,):
                cells = [Cell(str(buffer)), _label(label, each, differing(several), strong=row in OURS)]
                for name in filled.scenarios:
                    theirs = exhibit.value(size, row, where, name)
                    numbers = _numbers(each, name, theirs, best.get(name)) if filled.can_have(row) else [NONE] * 3
                    cells += numbers[: shown[name]]
                rows.append((*cells, Cell(str(len(each.results))) if each else NONE))
    for row, label in BOUNDS.items():
        several = filled.rows.get(row, ())
        for each in several:
            cells = [Cell("none"), _label(label, each, differing(several))]
            for name in filled.scenarios:
                cells += _numbers(each, name, None, None)[: shown[name]]
            rows.append((*cells, Cell(str(len(each.results)))))
    columns = [Column("buffer"), Column("row of the paper")]
    beside = f"paper ({benchmark_name(STAND_INS[filled.benchmark])})" if stands_in else "paper"
    for name in filled.scenarios:
        heads = [Column(text, SCENARIOS[name]) for text in ("ours", beside, "difference")]
        columns += heads[: shown[name]]
    columns.append(Column("seeds"))
    title = f"{exhibit.place} on {benchmark_name(filled.benchmark)}: accuracy in percent"
    return Table(title, tuple(columns), tuple(rows), words=2, notes=_notes(filled))


def benchmark_name(benchmark: str) -> str:
    return paper().benchmarks.get(benchmark, f"`{benchmark}`")


def _label(label: str, each: Evaluated | None, apart: Sequence[str], *, strong: bool = False) -> Cell:
    own = ", ".join(f"{name}={each.settings[name]}" for name in apart) if each else ""
    return Cell(label, "strong" if strong else "plain", below=own)


def _best(filled: Filled, buffer: int | str) -> dict[str, float]:
    """The highest mean of each scenario; upper and lower bound do not compete."""
    found = [each for row in filled.rows if row not in BOUNDS for each in filled.of(row, buffer)]
    return {name: max((each.summary(name).mean for each in found), default=0.0) for name in filled.scenarios}


def _numbers(each: Evaluated | None, scenario: str, printed: Printed | None, best: float | None) -> list[Cell]:
    """Ours, the paper's, and the difference."""
    theirs = Cell(spread(printed), "paper") if printed else NONE
    if each is None:
        return [NOT_RUN, theirs, NONE]
    summary = each.summary(scenario)
    ours = Cell(spread(summary), "strong" if summary.mean == best else "plain", below=interval(summary))
    return [ours, theirs, Cell(number(summary.mean - printed.mean, sign=True)) if printed else NONE]


def _notes(filled: Filled) -> tuple[str, ...]:
    fewest = min(len(each.results) for several in filled.rows.values() for each in several)
    notes = [
        f"From {', '.join(f'`{study}`' for study in filled.studies)}. Mean ± standard deviation (of the sample, n − 1) "
        "over seeds; below it the 95% bootstrap interval of the mean. Bold: our highest."
    ]
    if filled.benchmark in STAND_INS:
        notes.append(
            f"`{filled.benchmark}` is a small stand-in: the paper's column is another benchmark, shown for the order "
            "of its rows. No difference of levels is given."
        )
    if remark(fewest):
        notes.append(f"{remark(fewest)[0].upper()}{remark(fewest)[1:]}.")
    return tuple(notes)
