"""The sections of the paper's figures, and the accuracy matrices behind Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from co2l.learning.metrics import SCENARIOS, Matrix
from co2l.reporting import figures
from co2l.reporting.document import Block, Figure, Gap
from co2l.reporting.evaluated import Evaluated
from co2l.reporting.experiments import BOUNDS, FIGURE_3, FIGURE_4, TABLE_1, TABLE_3, Filled, off_diagonal
from co2l.reporting.formatting import benchmark_name
from co2l.reporting.gaps import command, nothing_run
from co2l.reporting.statistics import Summary, summarise

Array = NDArray[Any]


def figure_3(filled: Sequence[Filled], root: str) -> list[Block]:
    blocks: list[Block] = []
    for each in filled:
        name = each.file_name("figure_3")
        for probe in ("seen", "all"):
            measured = {
                scheme: runs[0]
                for scheme in ("joint", "contrastive")
                if (runs := each.rows.get(f"{scheme}, {probe}")) and runs[0].matrices(each.scenarios[0])
            }
            shown = {scheme: one.mean_matrix(each.scenarios[0]) for scheme, one in measured.items()}
            if not shown:
                what = f"Nothing was measured with a classifier on {probe} objects."
                blocks.append(Gap(what, command(FIGURE_3, root, each.benchmark)))
                continue
            by = next(iter(measured.values())).probe("matrix")
            caption = (
                f"{SCENARIOS[each.scenarios[0]]} accuracy on {benchmark_name(each.benchmark)} after each task, of a "
                f"linear classifier trained from scratch on {'the tasks seen' if probe == 'seen' else 'all tasks'} "
                f"(by the {by}); mean over seeds."
            )
            said = f"heat maps of {' and '.join(shown)} training, classifier on {probe} objects"
            blocks.append(Figure(f"{name}-{probe}", caption, figures.heat_maps(shown, by), said))
        blocks += _transfer(each, name)
    return blocks or [nothing_run(FIGURE_3, "Joint and contrastive training were not compared.", root)]


def _transfer(filled: Filled, name: str) -> list[Block]:
    """The two numbers in the paper's text: on previous tasks, and on future tasks."""
    groups, printed = dict[str, dict[str, Summary]](), dict[str, Mapping[str, float]]()
    for probe, title in (
        ("seen", "previous tasks,\nclassifier on seen objects"),
        ("all", "future tasks,\nclassifier on all objects"),
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
            f"{benchmark_name(each.benchmark)}, unlimited buffer; {SCENARIOS[scenario]} accuracy, mean ± standard "
            f"deviation over {seeds} seeds. In the paper, asymmetric SupCon lags without IRD and catches up with it."
        )
        drawing = figures.power(curves, SCENARIOS[scenario])
        said = "; ".join(f"{row}: {_points(curve)}" for row, curve in curves.items())
        blocks.append(Figure(each.file_name("figure_4"), caption, drawing, said))
    return blocks or [nothing_run(FIGURE_4, "No evaluation has both losses with an unlimited buffer.", root)]


def _points(curve: object) -> str:
    assert isinstance(curve, dict)
    return ", ".join(f"{at:g}: {summary.mean:.2f}" for at, summary in sorted(curve.items()))


def figure_5(supcon: Sequence[Filled], main: Sequence[Filled], store: str, root: str) -> list[Block]:
    """The encoders of Table 3, original beside asymmetric SupCon; if it was not run, Co²L's from Table 1."""
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
                what = f"The store has no features of {row} on {benchmark_name(each.benchmark)}, buffer {buffer}."
                blocks.append(Gap(what, command(experiment, root, each.benchmark)))
        if encoders:
            caption = (
                f"t-SNE of encoder features of training examples of {benchmark_name(each.benchmark)}, buffer {buffer}, "
                "first seed. Top: buffered examples in the colour of their class, the others grey. Bottom: all in "
                "colour. Numbers mark the middle of each class."
            )
            said = " and ".join(encoder.title for encoder in encoders)
            blocks.append(Figure(each.file_name("figure_5"), caption, figures.scatter(encoders), said))
    return blocks or [nothing_run(TABLE_3, "Nothing was evaluated, so there are no encoder features.", root)]


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
                label = BOUNDS.get(row) or f"{each.label(row)}, buffer {one.buffer}"
                shown = {name: one.mean_matrix(name) for name in one.scenarios if one.matrices(name)}
                if not shown and row == "joint":  # it learns all tasks at once, so there is no matrix
                    continue
                if not shown:
                    blocks.append(Gap(f"{label}: no accuracy matrix was measured (`matrix_probe=none`)."))
                    continue
                by = one.probe("matrix")
                caption = f"{label}, {benchmark_name(each.benchmark)}: by the {by}, mean over {len(one.results)} seeds."
                said = f"accuracy on each task after each task; the last row is {_row(shown)}"
                name = f"matrix-{each.benchmark}-{row}-{one.buffer}-{i}"
                blocks.append(Figure(name, caption, figures.heat_maps(shown, by), said))
    return blocks or [Gap("Nothing was evaluated, so there is no accuracy matrix.")]


def _row(shown: dict[str, Matrix]) -> str:
    return "; ".join(f"{SCENARIOS[name]} {', '.join(f'{a:.1f}' for a in matrix[-1])}" for name, matrix in shown.items())
