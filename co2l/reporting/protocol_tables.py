"""The report on selection protocols: a section for each benchmark, from plain results."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from co2l.data.class_order import BY_SEED
from co2l.learning.metrics import LAST_DOMAIN, scenario_title
from co2l.reporting import protocol_figures
from co2l.reporting.crossed import Component, Crossed, components, rectangle
from co2l.reporting.document import Block, Column, Figure, Gap, Item, Report, Section, Table, Text
from co2l.reporting.formatting import NONE, benchmark_name, number
from co2l.reporting.protocols import REFERENCE, SCORE, Comparison, ProtocolResult, comparisons
from co2l.reporting.ranking import conclusion, means, ranks, taus
from co2l.reporting.search_cost import frontier, leads

SHOWN = 4  # of the leads of two methods, the last ones
FACTORS = ("configuration", "order", "seed")


def report(results: Iterable[ProtocolResult], *, title: str, about: str, command: str = "", to_run: str = "") -> Report:
    """A section for each table; without any result a gap with the command `to_run`."""
    empty = Gap("No search in this storage has a selection protocol and an evaluation.", to_run)
    found = sections(results) or [Section("protocols", "Selection protocols", (empty,))]
    return Report(title, about, tuple(found), command)


def sections(results: Iterable[ProtocolResult]) -> list[Section]:
    """All about each benchmark, and each group that was selected for."""
    return [_section(each, f"protocols-{i}") for i, each in enumerate(comparisons(results), 1)]


def _section(comparison: Comparison, name: str) -> Section:
    title = ", ".join(filter(None, [benchmark_name(comparison.benchmark).strip("`"), comparison.group]))
    blocks: list[Block] = []
    if comparison.tested:
        blocks += [accuracies(comparison), Text(conclusion(comparison))]
        blocks += agreement(comparison)
        said = "; ".join(
            f"{each.method}, {each.protocol}: {number(each.accuracy().mean)}" for each in comparison.tested
        )
        caption = "Test score of what each protocol selected, left by protocol, right over what it cost."
        blocks.append(Figure(f"{name}-overview", caption, protocol_figures.overview(comparison), said))
        blocks += choices(comparison)
    blocks += gaps(comparison)
    blocks += _unseen(comparison)
    parts = (
        Section(f"{name}-variance", "Where the variance comes from", tuple(variances(comparison))),
        Section(f"{name}-cost", "What a choice costs", tuple(costs(comparison, name))),
    )
    return Section(name, title, tuple(blocks), parts if comparison.tested else ())


def accuracies(comparison: Comparison) -> Table:
    """Method × protocol: accuracy with its interval, and the rank under each protocol."""
    scenarios = dict.fromkeys(name for each in comparison.tested for name in each.scenarios)
    shown = [name for name in scenarios if name not in (SCORE, LAST_DOMAIN)]
    rows = []
    for protocol in comparison.protocols:
        of_protocol = comparison.under(protocol)
        rank = ranks(means(of_protocol))
        for method, each in sorted(of_protocol.items(), key=lambda pair: rank[pair[0]]):
            accuracy = each.accuracy()
            rows.append(
                (
                    Item(f"`{each.protocol}`"),
                    Item(method),
                    Item(str(rank[method])),
                    Item(number(accuracy.mean), "strong", below=_interval(accuracy)),
                    *(Item(number(each.accuracy(name).mean)) if name in each.scenarios else NONE for name in shown),
                    _beside_reference(each, comparison),
                    Item(str(len(accuracy.seeds))),
                    Item(_orders(accuracy)),
                    Item(f"{each.choosing.epochs:,}"),
                )
            )
    names = ["protocol", "method", "rank", SCORE, *map(scenario_title, shown), f"less `{REFERENCE}`"]
    columns = tuple(map(Column, [*names, "seeds", "orders", "epochs to choose"]))
    title = (
        f"Accuracy on test data in percent, of what each protocol selected on {benchmark_name(comparison.benchmark)}"
    )
    return Table(title, columns, tuple(rows), words=2, notes=_notes(comparison))


def _notes(comparison: Comparison) -> tuple[str, ...]:
    left_out = sum(each.accuracy().left_out for each in comparison.tested)
    notes = [
        "Score: the mean over Class-IL and Task-IL, or Domain-IL alone, which every protocol selects by; ranks are by "
        "it. Below it the 95% t interval of the mean for new seeds and new orders: its squared standard error is that "
        "of the seeds' means plus that of the orders' means. Over one order it holds for this order alone.",
        f"Less `{REFERENCE}`: the difference to the same method selected by `{REFERENCE}` on the benchmark that both "
        "are tested on, paired by seed and order, with its interval of the same kind. Intervals are not corrected for "
        "the number of comparisons.",
        "Epochs to choose: what the protocol has to train before it selects, each distinct stage once.",
    ]
    if any(interval[1] > 100 for each in comparison.tested if (interval := each.accuracy().interval)):
        notes.append("An interval is symmetric, so with few seeds or orders it may reach beyond 100%.")
    if left_out:
        notes.append(f"{left_out} runs are left out: without them every seed has every order.")
    return tuple(notes)


def _interval(accuracy: Crossed) -> str:
    if (interval := accuracy.interval) is None:
        return "one run"
    return f"[{number(interval[0])}, {number(interval[1])}]"


def _orders(accuracy: Crossed) -> str:
    return "one for each seed" if accuracy.orders == (BY_SEED,) else str(len(accuracy.orders))


def _beside_reference(each: ProtocolResult, comparison: Comparison) -> Item:
    reference = comparison.reference(each)
    if reference is None or (difference := each.minus(reference)) is None:
        return NONE
    if each.configuration == reference.configuration:
        return Item("0", "muted", below="the same choice")
    return Item(number(difference.mean, sign=True), below=_interval(difference))


def agreement(comparison: Comparison) -> list[Block]:
    """Kendall's τ between the rankings of every two protocols."""
    protocols = [protocol for protocol in comparison.protocols if comparison.under(protocol)]
    found = taus(comparison)
    if all(tau is None for tau in found.values()):
        return []
    rows = []
    for i, one in enumerate(protocols[1:], 1):
        items = [
            NONE if (tau := found[other, one]) is None else Item(number(tau, sign=True)) for other in protocols[:i]
        ]
        rows.append((Item(f"`{one}`"), *items, *[Item("")] * (len(protocols) - 1 - i)))
    columns = (Column("protocol"), *(Column(f"`{name}`") for name in protocols[:-1]))
    notes = ["Kendall's τ-b over the methods that both have: 1 if they rank alike, −1 if one ranks in reverse."]
    if len({each.tested_on for each in comparison.tested}) > 1:
        notes.append("Under `transfer` methods are tested on other data, which may be why they rank otherwise.")
    return [Table("How far the rankings of two protocols agree", columns, tuple(rows), notes=tuple(notes))]


def choices(comparison: Comparison) -> list[Block]:
    """What each protocol selected, by method."""
    listed = sorted((each for each in comparison.tested if each.chosen), key=lambda each: each.method)
    if not listed:
        return []
    rows = tuple((Item(each.method), Item(f"`{each.protocol}`"), Item(each.chosen)) for each in listed)
    note = "`kappa/3` is κ in task 3: `greedy` chooses anew at every task."
    notes = (note,) if any("/" in each.chosen for each in listed) else ()
    columns = tuple(map(Column, ("method", "protocol", "selected")))
    return [Table("What each protocol selected", columns, rows, words=3, notes=notes)]


def gaps(comparison: Comparison) -> list[Block]:
    """What was not searched, and what was not tested."""
    blocks: list[Block] = []
    for each in comparison.results:
        what = f"{each.method} under `{each.protocol}`"
        if each.left:
            blocks.append(Gap(f"{what}: its search has {each.left} trials left; run its command again."))
        elif not each.accuracies:
            blocks.append(Gap(f"{what} is searched but not tested.", each.command))
    by_protocol = itertools.groupby(comparison.missing(), key=lambda pair: pair[1])
    missing = {protocol: [method for method, _ in pairs] for protocol, pairs in by_protocol}
    return blocks + [
        Gap(f"Not searched under `{protocol}`: {', '.join(methods)}.") for protocol, methods in missing.items()
    ]


def _unseen(comparison: Comparison) -> list[Block]:
    lines = [
        f"{each.method} under `{each.protocol}`: {', '.join(f'`{name}`' for name in each.unseen)}"
        for each in comparison.results
        if each.unseen
    ]
    if not lines:
        return []
    why = "No stage before the choice reads these axes, so all their values tie and the first one was taken"
    return [Text(f"{why}: {'; '.join(lines)}.")]


def variances(comparison: Comparison) -> list[Block]:
    """For each benchmark that was tested on: how much configurations, orders and seeds differ."""
    blocks: list[Block] = []
    for tested_on in dict.fromkeys(each.tested_on for each in comparison.tested):
        several = {each.configuration: each for each in comparison.tested if each.tested_on == tested_on}
        blocks.append(_variance(tested_on, list(several.values())))
    return blocks


def _variance(tested_on: str, several: Sequence[ProtocolResult]) -> Block:
    by_configuration = [each.by_run() for each in several]
    common = [run for run in by_configuration[0] if all(run in runs for runs in by_configuration)]
    seeds, orders = rectangle(common)
    where = benchmark_name(tested_on)
    if not common:
        return Gap(f"On {where} no run is common to all {len(several)} configurations, so variances cannot be told.")
    values = np.array([[[runs[seed, order] for seed in seeds] for order in orders] for runs in by_configuration])
    found = components(values, FACTORS)
    if not found:
        return Gap(f"On {where} there is a single run, which has no variance.")
    rows = tuple((Item(each.name), Item(number(each.std)), Item(f"{each.share:.0%}")) for each in found)
    title = f"Test score on {where}: where its variance comes from"
    columns = tuple(map(Column, ("component", "standard deviation in points", "share of the variance")))
    left_out = sum(len(runs) for runs in by_configuration) - values.size
    return Table(title, columns, rows, notes=_variance_notes(values.shape, found, left_out))


def _variance_notes(shape: tuple[int, ...], found: Sequence[Component], left_out: int) -> tuple[str, ...]:
    design = ", ".join(f"{n} {name}{'s' if n > 1 else ''}" for n, name in zip(shape, FACTORS, strict=True))
    notes = [
        f"{design}, each combination once. Random effects by the analysis of variance: mean squares are set equal to "
        "their expectations. A × B is what A and B do together beyond what each does alone; the rest is the highest "
        "such interaction, which one run per combination cannot split further. A configuration is what one method was "
        "selected with; protocols that select the same count once."
    ]
    if negative := [each.name for each in found if each.variance < 0]:
        notes.append(f"Estimated below zero, and so shown as 0: {', '.join(negative)}.")
    if single := [name for n, name in zip(shape, FACTORS, strict=True) if n == 1]:
        notes.append(f"There is one {' and one '.join(single)}, so nothing can be said of others.")
    if left_out:
        notes.append(f"{left_out} runs are left out, which other configurations, seeds or orders lack.")
    return tuple(notes)


def costs(comparison: Comparison, name: str) -> list[Block]:
    """Total compute beside accuracy, and where searches overtake each other."""
    best = {
        id(each)
        for tested_on in {each.tested_on for each in comparison.tested}
        for each in frontier(each for each in comparison.tested if each.tested_on == tested_on)
    }
    rows = []
    for each in sorted(comparison.tested, key=lambda each: each.total.epochs):
        numbers = (each.choosing.epochs, each.training.epochs, each.total.epochs)
        mark = Item("●", "good") if id(each) in best else Item("")
        items = [*(Item(f"{n:,}") for n in numbers), Item(f"{each.total.hours:.2f}")]
        rows.append((Item(each.method), Item(f"`{each.protocol}`"), *items, Item(number(each.accuracy().mean)), mark))
    columns = ("method", "protocol", "epochs to choose", "to train once", "total", "trial hours", "test score", "best")
    notes = (
        "Total: the search, and training what it selected once; testing over more seeds and orders is measuring, and "
        "not counted. ● marks what nothing with as few epochs matches on the same test data.",
    )
    table = Table("Accuracy over total compute, the cheapest first", tuple(map(Column, columns)), tuple(rows), 2, notes)
    return [table, *overtaking(comparison, name)]


def overtaking(comparison: Comparison, name: str) -> list[Block]:
    """At which budgets the best validation score of one method passes that of another, protocol by protocol."""
    curves = {
        protocol: {each.method: each.curve for each in comparison.results if each.protocol == protocol and each.curve}
        for protocol in comparison.protocols
    }
    curves = {protocol: several for protocol, several in curves.items() if len(several) > 1}
    if not curves:
        return []
    rows = []
    for protocol, several in curves.items():
        for one, other in itertools.combinations(several, 2):
            found = leads({one: several[one], other: several[other]})
            said = ", then ".join(f"{lead.method} from {lead.epochs:,}" for lead in found[-SHOWN:]) or "always equal"
            said = f"…, then {said}" if len(found) > SHOWN else said
            changes = Item(str(max(0, len(found) - 1)), "strong" if len(found) > 1 else "muted")
            rows.append((Item(f"`{protocol}`"), Item(f"{one}, {other}"), Item(said), changes))
    notes = (
        "The best validation score so far over the epochs trained so far, each stage once, trial after trial in the "
        "order in which the search began them: another order of trials overtakes at other budgets. Scores are compared "
        "within a protocol alone, and from the first budget at which both methods have a finished trial. Test "
        "accuracies of what would have been selected earlier are not known.",
    )
    columns = tuple(map(Column, ("protocol", "methods", "who leads from how many epochs", "changes")))
    table = Table("The budgets at which the order of two methods changes", columns, tuple(rows), 3, notes)
    caption = "Best validation score so far over the epochs that the search has trained."
    drawn = protocol_figures.courses_of_searches(curves, comparison.methods)
    said = "; ".join(
        f"{protocol}, {method}: ends with {number(curve[-1][1])} after {curve[-1][0]:,} epochs"
        for protocol, several in curves.items()
        for method, curve in several.items()
    )
    return [table, Figure(f"{name}-courses", caption, drawn, said)]
