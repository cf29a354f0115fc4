"""An evaluation: chosen configurations with several seeds each, trained on all training data, evaluated on test data.

It is a space like any other, so the same code runs it. Only `co2l.evaluate` makes one: a file that is read as a space
to be searched never becomes an evaluation.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from co2l.data.benchmarks import benchmark
from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.results import Chosen
from co2l.search.space.document import METHOD, Document
from co2l.search.space.naming import named
from co2l.search.space.space import Space, parse

ORDER = "class_order"
_OF_A_SEARCH = {"start", "seeds", "validation", "objective", "selection", "algorithm", "samples", "early_stop"}


class Evaluation(Space):
    @functools.cached_property
    def split(self) -> Split:
        """All training examples, evaluated on the test examples."""
        return Split("evaluation")

    def canonical(self) -> dict[str, Any]:
        """What its results depend on. More seeds continue an evaluation."""
        plain = super().canonical()
        return {"kind": "evaluation", **{name: plain[name] for name in plain if name not in _OF_A_SEARCH}}


def of_space(space: Space, seeds: int) -> Evaluation:
    """Every trial of the space's grid, with the seeds 0 to `seeds` - 1 instead of its own."""
    if space.selection.protocol.greedy:
        fix = "search it, then evaluate what it selected with --study"
        raise Co2lError("a greedy search chooses as it goes and has no grid", where=space.source, fix=fix)
    kept = {name: getattr(space, name) for name in Document.model_fields if name not in _OF_A_SEARCH}
    return parse({**kept, "seeds": list(range(seeds))}, space.source, Evaluation)


def _without_order(chosen: Sequence[Chosen], source: str) -> list[Chosen]:
    """The configurations, each once, if they differ in the order of classes alone."""
    for each in chosen:
        if benchmark(each.benchmark).scenario == "domain":
            what = f"every task of {each.benchmark} has all classes, in no order"
            raise Co2lError(what, where=source, fix="leave out --orders")
    found: dict[str, Chosen] = {}
    for each in chosen:
        settings = {name: value for name, value in each.settings.items() if name != ORDER}
        group = {name: value for name, value in each.group.items() if name != ORDER}
        found.setdefault(repr((each.method, settings)), each.model_copy(update={"settings": settings, "group": group}))
    return list(found.values())


def of_configurations(chosen: Sequence[Chosen], seeds: int, source: str, orders: int | None = None) -> Evaluation:
    """Each as a variant, named by what it was chosen for; in the class orders 0 to `orders` - 1 instead of its own."""
    if orders is not None:
        chosen = _without_order(chosen, source)
    if len({each.benchmark for each in chosen}) != 1:
        mixed = sorted({f"{each.method} on {each.benchmark}" for each in chosen})
        fix = "evaluate each in its own file"
        raise Co2lError(f"mixed configurations: {', '.join(mixed) or 'none'}", where=source, fix=fix)
    first, alone = chosen[0], len(chosen) == 1
    common = {
        name: value
        for name, value in first.settings.items()
        if all(name in each.settings and each.settings[name] == value for each in chosen)
    }
    variants: dict[str, dict[str, Any]] = {}
    for i, each in enumerate(chosen):
        name = named(each.group) or ("chosen" if alone else f"chosen {i + 1}")
        method = {METHOD: each.method} if each.method != first.method else {}
        variants[name] = method | {key: value for key, value in each.settings.items() if key not in common}
    if len(variants) < len(chosen):
        raise Co2lError("two configurations were chosen for the same", where=source, fix="remove one of them")
    document: dict[str, Any] = {"benchmark": first.benchmark, "method": first.method}
    document |= {"settings": common, "variants": variants}
    if orders is not None:
        document["axes"] = {ORDER: list(range(orders))}
    return parse({**document, "seeds": list(range(seeds))}, source, Evaluation)
