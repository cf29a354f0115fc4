"""The sections of the paper's tables and figures: what fills them, and the gaps that say which command does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from co2l.learning.metrics import Matrix
from co2l.reporting import figures
from co2l.reporting.document import Block, Figure, Gap
from co2l.reporting.evaluated import Evaluated
from co2l.reporting.experiments import (
    BOUNDS,
    FIGURE_3,
    FIGURE_4,
    STAND_INS,
    TABLE_1,
    TABLE_3,
    Experiment,
    Filled,
    off_diagonal,
)
from co2l.reporting.paper import paper
from co2l.reporting.statistics import Summary, summarise
from co2l.reporting.tables import benchmark_name, paper_table
from co2l.search.figures import SCENARIOS

Array = NDArray[Any]


def _command(experiment: Experiment, root: str, benchmark: str = "seq_cifar10") -> str:
    return f"python -m co2l.evaluate --space {experiment.file(benchmark)} --root {root}"


def _gap(experiment: Experiment, what: str, root: str) -> Gap:
    """Where there is nothing at all: the paper's own experiment, or its small twin."""
    small = experiment.file("seq_digits")
    return Gap(f"{what} The small twin `{small}` takes minutes; the paper's own:", _command(experiment, root))


def table_1(filled: Sequence[Filled], root: str) -> list[Block]:
    blocks: list[Block] = []
    for each in filled:
        printed = each.experiment.printed
        sizes = each.buffers() if each.benchmark in STAND_INS else printed.buffers + tuple(
            size for size in each.buffers() if size not in printed.buffers
        )  # fmt: skip
        blocks.append(paper_table(each, buffers=sizes))
        blocks += _missing(each, sizes, root)
    absent = [name for name in paper().benchmarks if name not in {each.benchmark for each in filled}]
    blocks += [
        Gap(f"Nothing was evaluated on {benchmark_name(name)}.", _command(TABLE_1, root, name)) for name in absent
    ]
    return blocks


def ablation(experiment: Experiment, filled: Sequence[Filled], root: str) -> list[Block]:
    if not filled:
        what = f"No evaluation holds two rows of {experiment.printed.place}, so there is nothing to compare."
        return [_gap(experiment, what, root)]
    blocks: list[Block] = []
    for each in filled:
        blocks.append(paper_table(each))
        blocks += _missing(each, each.buffers(), root)
        blocks += _courses(each)
    return blocks


def _missing(filled: Filled, buffers: Sequence[int | str], root: str) -> list[Block]:
    experiment = filled.experiment
    rows = experiment.printed.rows
    absent = {
        buffer: [label for row, label in rows.items() if not filled.of(row, buffer) and filled.can_have(row)]
        for buffer in buffers
    }
    names = sorted({name for several in absent.values() for name in several}, key=list(rows.values()).index)
    if not names:
        return []
    lines = "; ".join(f"buffer {buffer}: {', '.join(several)}" for buffer, several in absent.items() if several)
    what, benchmark = f"Not run on {benchmark_name(filled.benchmark)}: {lines}.", filled.benchmark
    if experiment is not TABLE_1 or names == [rows["co2l"]]:
        return [Gap(what, _command(experiment, root, benchmark))]
    method = next(row for row, label in rows.items() if label == names[0])
    return [Gap(f"{what} For {names[0]}, for example:", _baseline_command(benchmark, method, root))]


def _baseline_command(benchmark: str, method: str, root: str) -> str:
    if benchmark == "seq_digits":  # where nobody has chosen the values yet
        search = f"python -m co2l.tune --space search_spaces/seq_digits/{method}.yaml --root {root}"
        return f"{search} && python -m co2l.evaluate --study seq_digits-{method} --root {root}"
    folder = f"digits/{benchmark}" if benchmark in STAND_INS else benchmark
    return f"python -m co2l.evaluate --space search_spaces/paper/{folder}/{method}.yaml --root {root}"


def _courses(filled: Filled) -> list[Block]:
    """How the rows of a table get there: accuracy and forgetting after each task."""
    rows, blocks = filled.experiment.printed.rows, list[Block]()
    scenario = filled.scenarios[0]
    for buffer in filled.buffers():
        lines = {
            label: matrices
            for row, label in rows.items()
            for each in filled.of(row, buffer)[:1]
            if (matrices := each.matrices(scenario))
        }
        if not lines:
            blocks.append(Gap(f"No accuracy matrix was measured with buffer {buffer} (`matrix_probe=none`)."))
            continue
        caption = (
            f"{SCENARIOS[scenario]} accuracy and forgetting from task to task, {filled.experiment.printed.place} on "
            f"{benchmark_name(filled.benchmark)}, buffer {buffer}; band: ± 1 standard deviation over seeds. After each "
            "task the fast probe judges, after the last one the table above uses the method's own."
        )
        name = f"{_file_name(filled.experiment.exhibit, filled)}-{buffer}"
        said = f"a line each for {', '.join(lines)}"
        blocks.append(Figure(name, caption, figures.courses(lines), said))
    return blocks


def figure_3(filled: Sequence[Filled], root: str) -> list[Block]:
    blocks: list[Block] = []
    for each in filled:
        name = _file_name("figure_3", each)
        for probe in ("seen", "all"):
            shown = {
                scheme: runs[0].mean_matrix(each.scenarios[0])
                for scheme in ("joint", "contrastive")
                if (runs := each.rows.get(f"{scheme}, {probe}")) and runs[0].matrices(each.scenarios[0])
            }
            if not shown:
                what = f"Nothing was measured with a classifier on {probe} objects."
                blocks.append(Gap(what, _command(FIGURE_3, root, each.benchmark)))
                continue
            caption = (
                f"{SCENARIOS[each.scenarios[0]]} accuracy on {benchmark_name(each.benchmark)} after each task, of a "
                f"linear classifier trained afresh on {'the tasks seen' if probe == 'seen' else 'all tasks'}; mean "
                "over seeds."
            )
            said = f"heat maps of {' and '.join(shown)} training, classifier on {probe} objects"
            blocks.append(Figure(f"{name}-{probe}", caption, figures.heat_maps(shown), said))
        blocks += _transfer(each, name)
    return blocks or [_gap(FIGURE_3, "Joint and contrastive training were not compared.", root)]


def _transfer(filled: Filled, name: str) -> list[Block]:
    """The two numbers of the paper's text: on previous tasks, and on tasks to come."""
    groups, printed = dict[str, dict[str, Summary]](), dict[str, Mapping[str, float]]()
    for probe, title in (
        ("seen", "previous tasks,\nclassifier on seen objects"),
        ("all", "tasks to come,\nclassifier on all objects"),
    ):
        means = {scheme: off_diagonal(filled, scheme, probe) for scheme in ("joint", "contrastive")}
        if found := {scheme: summarise(list(values.values())) for scheme, values in means.items() if values}:
            groups[title] = found
            printed[title] = filled.experiment.printed.content["means"][probe]
    if not groups:
        return []
    caption = (
        f"Mean accuracy off the diagonal on {benchmark_name(filled.benchmark)}, ± standard deviation over seeds; "
        "dotted: what the paper prints for Seq-CIFAR-10."
    )
    said = "; ".join(
        f"{title.replace(chr(10), ' ')}: " + ", ".join(f"{scheme} {each.mean:.2f}" for scheme, each in found.items())
        for title, found in groups.items()
    )
    drawing = figures.bars(groups, f"{SCENARIOS[filled.scenarios[0]]} accuracy (%)", printed)
    return [Figure(f"{name}-means", caption, drawing, said)]


def _file_name(exhibit: str, filled: Filled) -> str:
    return f"{exhibit}-{filled.benchmark}-{filled.studies[0]}".replace(".", "-")


def figure_4(filled: Sequence[Filled], root: str) -> list[Block]:
    blocks: list[Block] = []
    for each in filled:
        scenario = each.scenarios[0]
        curves = {
            f"{row} SupCon": {float(one.settings["distill_power"]): one.summary(scenario) for one in several}
            for row, several in sorted(each.rows.items(), reverse=True)
        }
        seeds = min(len(one.results) for several in each.rows.values() for one in several)
        caption = (
            f"{benchmark_name(each.benchmark)}, all past samples kept; {SCENARIOS[scenario]} accuracy, mean ± standard "
            f"deviation over {seeds} seeds. The paper: asymmetric SupCon is behind without IRD, and catches up with it."
        )
        drawing = figures.power(curves, SCENARIOS[scenario])
        said = "; ".join(f"{row}: {_points(curve)}" for row, curve in curves.items())
        blocks.append(Figure(_file_name("figure_4", each), caption, drawing, said))
    return blocks or [_gap(FIGURE_4, "No evaluation holds both losses with an unlimited buffer.", root)]


def _points(curve: object) -> str:
    assert isinstance(curve, dict)
    return ", ".join(f"{at:g}: {summary.mean:.2f}" for at, summary in sorted(curve.items()))


def figure_5(supcon: Sequence[Filled], main: Sequence[Filled], store: str, root: str) -> list[Block]:
    """The encoders of Table 3, original SupCon beside asymmetric; Co²L's of Table 1 if that was not run."""
    blocks: list[Block] = []
    for each in supcon or main:
        rows, experiment = (("symmetric", "asymmetric"), TABLE_3) if supcon else (("co2l",), TABLE_1)
        by_buffer = {size: {row: _features(each.of(row, size), store) for row in rows} for size in each.buffers()}
        buffer, found = max(by_buffer.items(), key=lambda item: sum(one is not None for one in item[1].values()))
        encoders = [
            figures.Features(f"{row} SupCon" if supcon else "Co²L", *one)
            for row, one in found.items()
            if one is not None
        ]
        for row in rows:
            if found[row] is None:
                what = f"No features of {row} on {benchmark_name(each.benchmark)}, buffer {buffer}, are in the store."
                blocks.append(Gap(what, _command(experiment, root, each.benchmark)))
        if encoders:
            caption = (
                f"t-SNE of encoder features of training samples of {benchmark_name(each.benchmark)}, buffer {buffer}, "
                "first seed. Top: buffered samples in the colour of their class, the others grey. Bottom: all in "
                "colour. Numbers: the middle of each class."
            )
            said = " and ".join(encoder.title for encoder in encoders)
            blocks.append(Figure(_file_name("figure_5", each), caption, figures.scatter(encoders), said))
    return blocks or [_gap(TABLE_3, "Nothing was evaluated, so there are no encoder features.", root)]


def _features(several: Sequence[Evaluated], store: str) -> tuple[Array, Array, Array] | None:
    from co2l.learning.store import Store  # torch takes seconds to load

    key = several[0].exported("features") if several else None
    state = Store(store).load_state(key) if key else None
    if state is None:
        return None
    return state["features"].numpy(), state["labels"].numpy(), state["buffered"].numpy()


def matrices(filled: Sequence[Filled]) -> list[Block]:
    """The mean accuracy matrix of every configuration of Table 1."""
    blocks: list[Block] = []
    for each in filled:
        for row, several in each.rows.items():
            for i, one in enumerate(sorted(several, key=lambda one: str(one.buffer).zfill(9))):
                label = BOUNDS.get(row) or f"{each.experiment.printed.rows[row]}, buffer {one.buffer}"
                shown = {name: one.mean_matrix(name) for name in one.scenarios if one.matrices(name)}
                if not shown and row == "joint":  # it learns all tasks at once
                    continue
                if not shown:
                    blocks.append(Gap(f"{label}: no accuracy matrix was measured (`matrix_probe=none`)."))
                    continue
                caption = f"{label}, {benchmark_name(each.benchmark)}: mean over {len(one.results)} seeds."
                said = f"accuracy on each task after each task; the last row is {_row(shown)}"
                name = f"matrix-{each.benchmark}-{row}-{one.buffer}-{i}"
                blocks.append(Figure(name, caption, figures.heat_maps(shown), said))
    return blocks or [Gap("Nothing was evaluated, so there is no accuracy matrix.")]


def _row(shown: dict[str, Matrix]) -> str:
    return "; ".join(f"{SCENARIOS[name]} {', '.join(f'{a:.1f}' for a in matrix[-1])}" for name, matrix in shown.items())
