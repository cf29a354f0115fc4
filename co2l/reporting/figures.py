"""The figures of a report, each from plain numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from co2l.learning.metrics import Matrix, forgetting, mean
from co2l.reporting.drawing import CLASSES, COLOURS, GREY, INK, MARKERS, styled
from co2l.reporting.statistics import Summary
from co2l.search.tracking import search_figures
from co2l.search.tracking.figures import accuracy_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BUFFERED, OTHERS, DIMENSIONS = 200, 800, 50  # of the examples and features that t-SNE sees


@dataclass(frozen=True)
class Features:
    """An encoder's features of training examples, and which of these the buffer holds."""

    title: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    buffered: NDArray[np.bool_]


@styled
def heat_maps(matrices: Mapping[str, Matrix], probe: str) -> Figure:
    """Accuracy on each task (column) after learning each task (row), one panel per title, by this probe."""
    return accuracy_matrix(matrices, probe)


@styled
def courses(runs: Mapping[str, Sequence[Matrix]]) -> Figure:
    """Accuracy and forgetting from task to task: a line per configuration, a band of ± 1 std over its seeds."""
    figure = Figure(figsize=(9.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (label, matrices), colour, marker in zip(runs.items(), itertools.cycle(COLOURS), itertools.cycle(MARKERS)):
        tasks = min(len(matrix) for matrix in matrices)
        accuracy = [[mean(matrix[i][: i + 1]) for i in range(tasks)] for matrix in matrices]
        forgotten = [[forgetting(matrix[: i + 1]) for i in range(1, tasks)] for matrix in matrices]
        _band(left, range(1, tasks + 1), accuracy, colour, marker, label)
        _band(right, range(2, tasks + 1), forgotten, colour, marker, label)
    for panel, title in ((left, "accuracy on the tasks so far (%)"), (right, "forgetting (percentage points)")):
        panel.set_title(title, loc="left")
        panel.set_xlabel("after task")
        panel.xaxis.get_major_locator().set_params(integer=True)
    left.set_ylim(top=101)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figure


def _band(
    panel: Axes, x: Sequence[int], lines: Sequence[Sequence[float]], colour: str, marker: str, label: str
) -> None:
    values = np.asarray(lines, dtype=np.float64)
    middle = values.mean(axis=0)
    panel.plot(x, middle, color=colour, marker=marker, label=label)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        panel.fill_between(x, middle - spread, middle + spread, color=colour, alpha=0.13, linewidth=0)


@styled
def power(curves: Mapping[str, Mapping[float, Summary]], scenario: str) -> Figure:
    """Accuracy against the power of IRD, a line per contrastive loss."""
    figure = Figure(figsize=(6.2, 3.7), layout="constrained")
    panel = figure.subplots()
    for (label, points), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        x = sorted(points)
        spread = [points[at].std or 0.0 for at in x]
        middle = [points[at].mean for at in x]
        panel.errorbar(x, middle, yerr=spread, color=colour, marker=marker, label=label, capsize=3)
    panel.set_xlabel("IRD power λ")
    panel.set_ylabel(f"{scenario} accuracy (%)")
    panel.legend()
    return figure


@styled
def bars(
    groups: Mapping[str, Mapping[str, Summary]], ylabel: str, printed: Mapping[str, Mapping[str, float]]
) -> Figure:
    """A group of bars per key, a bar per row; `printed` are the paper's numbers, drawn as a line across each bar."""
    figure = Figure(figsize=(6.8, 3.6), layout="constrained")
    panel = figure.subplots()
    names = list({name: None for group in groups.values() for name in group})
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        for j, (key, group) in enumerate(groups.items()):
            if name not in group:
                continue
            at, summary = j + (i - (len(names) - 1) / 2) * width, group[name]
            label = name if j == 0 else None
            panel.bar(at, summary.mean, width * 0.92, yerr=summary.std, color=COLOURS[i], label=label, capsize=3,
                      ecolor=INK)  # fmt: skip
            panel.annotate(f"{summary.mean:.1f}", (at, 2), ha="center", color="white", fontsize=9)
            if (number := printed.get(key, {}).get(name)) is not None:
                marked = "the paper, Seq-CIFAR-10" if i == j == 0 else "_"  # listed once
                panel.hlines(number, at - width * 0.46, at + width * 0.46, color=INK, linestyle=":", label=marked)
    panel.set_xticks(range(len(groups)), list(groups))
    panel.set_ylabel(ylabel)
    panel.set_ylim(0, 100)
    figure.legend(loc="outside right upper")
    return figure


@styled
def scatter(encoders: Sequence[Features], *, seed: int = 0) -> Figure:
    """t-SNE of encoder features. Top: buffered examples in colour, all others grey. Bottom: all in colour."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    figure = Figure(figsize=(4.6 * len(encoders), 8.6), layout="constrained")
    panels = figure.subplots(2, len(encoders), squeeze=False)
    for column, encoder in zip(panels.T, map(thinned, encoders), strict=True):
        perplexity = min(30.0, (len(encoder.features) - 1) / 3)
        few = PCA(min(DIMENSIONS, *encoder.features.shape), random_state=seed).fit_transform(encoder.features)
        points = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(few)
        kept = encoder.buffered
        for panel, grey in zip(column, (True, False), strict=True):
            rest = GREY if grey else [CLASSES[label % len(CLASSES)] for label in encoder.labels[~kept]]
            panel.scatter(*points[~kept].T, s=7, c=rest, alpha=0.35, linewidths=0, rasterized=True)
            colours = [CLASSES[label % len(CLASSES)] for label in encoder.labels[kept]]
            panel.scatter(*points[kept].T, s=34, c=colours, marker="o", edgecolors=INK, linewidths=0.7)
            for label in np.unique(encoder.labels):
                middle = np.median(points[encoder.labels == label], axis=0)
                panel.annotate(str(label), middle, ha="center", va="center", fontsize=11, fontweight="bold",
                               bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
                               color="black")  # fmt: skip
            panel.set(xticks=[], yticks=[])
            panel.grid(visible=False)
            panel.spines[:].set_visible(True)
        column[0].set_title(f"{encoder.title}: {int(kept.sum())} buffered of {len(kept)} shown")
    return figure


def thinned(encoder: Features) -> Features:
    """Evenly chosen examples: t-SNE of all would take a third of a report's time, and show the same clouds."""
    kept = encoder.buffered
    parts = [_evenly(np.flatnonzero(kept), BUFFERED), _evenly(np.flatnonzero(~kept), OTHERS)]
    chosen = np.sort(np.concatenate(parts))
    return Features(encoder.title, encoder.features[chosen], encoder.labels[chosen], kept[chosen])


def _evenly(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


history, importance = styled(search_figures.history), styled(search_figures.importance)
