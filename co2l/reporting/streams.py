"""What the order of classes and the number of tasks change: a row for each, and the variance of orders and seeds.

These are other problems than the paper's, so its tables do not show them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from co2l.data.class_order import BY_SEED
from co2l.learning.config import STREAM
from co2l.learning.metrics import SCENARIOS
from co2l.reporting.document import Block, Column, Item, Table
from co2l.reporting.evaluated import Evaluated, differing
from co2l.reporting.formatting import NONE, benchmark_name, number
from co2l.reporting.statistics import components
from co2l.search.space.naming import named


def tables(everything: Sequence[Evaluated]) -> list[Block]:
    """A table for each benchmark with a stream that is not its own; the same settings on its own belong there."""
    groups: dict[str, list[list[Evaluated]]] = defaultdict(list)
    for several in _alike(everything):
        if not all(each.own_stream for each in several):
            groups[several[0].benchmark].append(several)
    return [_table(benchmark, several) for benchmark, several in groups.items()]


def _alike(everything: Sequence[Evaluated]) -> list[list[Evaluated]]:
    """Configurations that differ in nothing but the stream."""
    groups: dict[str, list[Evaluated]] = defaultdict(list)
    for each in everything:
        others = {name: value for name, value in each.settings.items() if name not in STREAM}
        groups[repr((each.benchmark, each.method, sorted(others.items())))].append(each)
    return list(groups.values())


def _table(benchmark: str, groups: Sequence[list[Evaluated]]) -> Table:
    scenarios = groups[0][0].scenarios
    rows: list[tuple[Item, ...]] = []
    for several in groups:
        apart = [name for name in differing([group[0] for group in groups]) if name not in STREAM]
        label = named({"method": several[0].method, **{name: several[0].settings.get(name) for name in apart}})
        for tasks in sorted({each.settings["tasks"] for each in several}):
            rows += _rows(label, tasks, [each for each in several if each.settings["tasks"] == tasks])
    columns = [Column("configuration"), Column("tasks"), Column("order of classes")]
    for name in scenarios:
        columns += [Column(text, SCENARIOS[name]) for text in ("mean", "± seeds", "± orders")]
    notes = (
        "For each order the mean and the sample deviation over seeds. The rows of all orders separate the two: "
        "± seeds is the deviation of seeds within an order, pooled over orders; ± orders is that of the orders' own "
        "means, without what the scatter of seeds adds to it (one-way random effects; 0 if seeds explain everything).",
    )
    title = f"Streams of {benchmark_name(benchmark)}: accuracy after the last task in percent"
    return Table(title, (*columns, Column("runs")), tuple(rows), words=3, notes=notes)


def _rows(label: str, tasks: int, several: Sequence[Evaluated]) -> list[tuple[Item, ...]]:
    rows = []
    for each in several:
        items = [Item(label), Item(str(tasks)), Item(_order(each))]
        for name in each.scenarios:
            summary = each.summary(name)
            items += [Item(number(summary.mean)), NONE if summary.std is None else Item(number(summary.std)), NONE]
        rows.append((*items, Item(str(len(each.results)))))
    drawn = [each for each in several if each.settings["class_order"] != BY_SEED]
    if len(drawn) < 2:
        return rows
    items = [Item(label, "strong"), Item(str(tasks)), Item(f"all {len(drawn)} orders", "strong")]
    for name in drawn[0].scenarios:
        found = components([list(each.accuracies(name).values()) for each in drawn])
        items += [Item(number(found.mean), "strong")]
        items += [NONE if std is None else Item(number(std), "strong") for std in (found.within, found.between)]
    return [*rows, (*items, Item(str(sum(len(each.results) for each in drawn))))]


def _order(each: Evaluated) -> str:
    order = each.settings["class_order"]
    return f"number {order}" if isinstance(order, int) else "one for each seed" if order == BY_SEED else str(order)
