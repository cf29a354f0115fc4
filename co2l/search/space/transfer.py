"""What a configuration that was selected on one benchmark is on another: its axes' values, as the space maps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from co2l.data.benchmarks import benchmark
from co2l.errors import Co2lError, unknown
from co2l.learning.config import STREAM, RunConfig
from co2l.learning.methods import configure
from co2l.learning.path import of_task
from co2l.search.space.choice import Transfer
from co2l.search.space.document import METHOD, VARIANT, Range

if TYPE_CHECKING:
    from co2l.search.space.space import Space

SAME = "same"
# How much is learned, and from what: the same number means something else where there are more examples or classes
MEANS_ELSE = ("E_0", "E_t", "epochs", "buffer_size", "batch_size", "minibatch_size", *STREAM)


def check_transfer(space: Space) -> None:
    """Every axis has a meaning on the other benchmark, and each of its values makes sense there."""
    transfer, where = _of(space), f"{space.source}: selection.protocol.transfer"
    benchmark(transfer.to, where=f"{where}.to")
    for name, mapped in transfer.map.items():
        if name not in space.axes:
            raise unknown("axis", name, space.axes, where=f"{where}.map")
        if mapped != SAME and not isinstance(mapped, dict):
            fix = f"write {name}: same, or what each value becomes, as {{50: 100, 100: 200}}"
            raise Co2lError(f"{mapped!r} maps nothing", where=f"{where}.map.{name}", fix=fix)
    for name in space.axes:
        if of_task(name)[0] in MEANS_ELSE and name not in transfer.map and name not in space.selection.mean_over:
            fix = f"add map: {{{name}: same}}, or say what each value becomes, as {{{name}: {{50: 100, 100: 200}}}}"
            raise Co2lError(f"{name} means something else on {transfer.to}", where=where, fix=fix)
    listed = {name: (axis.low, axis.high) if isinstance(axis, Range) else axis for name, axis in space.axes.items()}
    first = {name: values[0] for name, values in listed.items()}
    for each, values in listed.items():
        for value in values:
            transferred(space, {**first, each: value})


def transferred(space: Space, values: Mapping[str, Any], seed: int = 0) -> RunConfig:
    """The configuration on the other benchmark: its defaults, the settings for it and the values of the axes."""
    transfer, where = _of(space), f"{space.source}: selection.protocol.transfer"
    left = () if benchmark(transfer.to).scenario == "class" else ("class_order",)  # a domain has all classes
    given = dict(transfer.settings)
    for name, value in values.items():
        if name in (*left, METHOD, VARIANT) or (name in space.selection.mean_over and name in STREAM):
            continue
        mapped = transfer.map.get(name, SAME)
        if mapped != SAME and str(value) not in mapped:
            fix = f"add {value}: …, its value on {transfer.to}"
            raise Co2lError(f"{value} is not mapped", where=f"{where}.map.{name}", fix=fix)
        given[name] = value if mapped == SAME else mapped[str(value)]
    together = space.variants.get(str(values.get(VARIANT, "")), {})
    given |= {name: value for name, value in together.items() if name != METHOD and name not in given}
    return configure(transfer.to, space.method_of(values), given, seed=seed, where=where)


def _of(space: Space) -> Transfer:
    assert space.selection.protocol.transfer is not None
    return space.selection.protocol.transfer
