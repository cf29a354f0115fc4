"""The figures of selection protocols: accuracy by protocol and over compute, and the course of searches."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from co2l.reporting.drawing import COLOURS, INK, MARKERS, styled
from co2l.reporting.protocols import Comparison
from co2l.reporting.search_cost import Curve

WIDTH = 0.5  # of the methods beside each other, of the distance between two protocols
APART = 5  # times as many epochs: the axis is logarithmic


@styled
def overview(comparison: Comparison) -> Figure:
    """Left: the test score of each method under each protocol, with its interval. Right: over total compute."""
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    protocols, methods = comparison.protocols, comparison.methods
    colours = dict(zip(methods, itertools.cycle(COLOURS)))
    markers = dict(zip(protocols, itertools.cycle(MARKERS)))
    for each in comparison.tested:
        accuracy = each.accuracy()
        shift = (methods.index(each.method) - (len(methods) - 1) / 2) * WIDTH / len(methods)
        style = {"color": colours[each.method], "marker": markers[each.protocol], "capsize": 3, "linestyle": "none"}
        at = protocols.index(each.protocol) + shift
        left.errorbar([at], [accuracy.mean], yerr=[accuracy.half or 0.0], **style)
        right.plot([each.total.epochs], [accuracy.mean], color=colours[each.method], marker=markers[each.protocol])
    left.set_xticks(range(len(protocols)), [_two_lines(name) for name in protocols])
    left.set_title("test score (%), 95% interval", loc="left")
    right.set_title("over total compute", loc="left")
    right.set_xlabel("epochs of the search and of training what it selected")
    spent = [each.total.epochs for each in comparison.tested]
    if max(spent) > APART * max(1, min(spent)):
        right.set_xscale("log")
        right.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        right.xaxis.set_minor_locator(NullLocator())
    right.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    handles = [Line2D([], [], color=colours[name], marker="o", linestyle="none", label=name) for name in methods]
    handles += [Line2D([], [], color=INK, marker=markers[name], linestyle="none", label=name) for name in protocols]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(8, len(handles)))
    return figure


@styled
def courses_of_searches(curves: Mapping[str, Mapping[str, Curve]], ends: Sequence[str]) -> Figure:
    """The best validation score so far over epochs, a panel for each protocol and a line for each method in `ends`."""
    figure = Figure(figsize=(max(4.8, 3.2 * len(curves)), 3.4), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    colours = dict(zip(ends, itertools.cycle(COLOURS)))
    for panel, (protocol, of_methods) in zip(panels, curves.items(), strict=True):
        last = max(curve[-1][0] for curve in of_methods.values())
        for method, curve in of_methods.items():
            epochs, scores = [*(each for each, _ in curve), last], [*(score for _, score in curve), curve[-1][1]]
            panel.step(epochs, scores, where="post", color=colours[method], label=method)
        panel.set_title(protocol, loc="left")
        panel.set_xlabel("epochs")
    panels[0].set_ylabel("best validation score so far (%)")
    handles = [Line2D([], [], color=colours[name], label=name) for name in ends]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(8, len(handles)))
    return figure


def _two_lines(name: str) -> str:
    return name.replace(" ", "\n", 1)
