"""Whether a selection makes sense: over which axes it goes, what its protocol may see, and what it costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from co2l.data.benchmarks import benchmark
from co2l.errors import Co2lError, unknown
from co2l.learning.config import STREAM, Scope
from co2l.learning.methods import METHODS
from co2l.learning.metrics import scenarios
from co2l.learning.path import of_task
from co2l.search.space.by_task import by_task
from co2l.search.space.choice import Selection
from co2l.search.space.document import Range
from co2l.search.space.transfer import check_transfer

if TYPE_CHECKING:
    from co2l.search.space.space import Space

    S = TypeVar("S", bound=Space)


def averaged(space: Space) -> Selection:
    """The selection, which never chooses between streams: it takes the mean over them, unless it chooses per stream."""
    per, mean_over = space.selection.per, space.selection.mean_over
    more = tuple(name for name in STREAM if name in space.axes and name not in (*per, *mean_over))
    return space.selection.model_copy(update={"mean_over": (*mean_over, *more)}) if more else space.selection


def check_choice(space: Space) -> None:
    """The objective is measured on this benchmark, and the selection goes over axes that have a list."""
    measured = [f"val/{name}" for name in ("score", *scenarios(benchmark(space.benchmark).scenario))]
    if space.objective not in measured:
        what = f"{space.objective} is not measured on {space.benchmark}"
        raise Co2lError(what, where=f"{space.source}: objective", fix=f"valid are: {', '.join(measured)}")
    selection = space.selection
    for name in selection.per:
        if name in selection.mean_over:
            fix = "keep it under per to choose for each value, or under mean_over to choose one for all"
            raise Co2lError(f"'{name}' is under per and mean_over", where=f"{space.source}: selection", fix=fix)
    for key, names in (("per", selection.per), ("mean_over", selection.mean_over)):
        where = f"{space.source}: selection.{key}"
        for i, name in enumerate(names):
            if name not in space.axes:
                raise unknown("axis", name, space.axes, where=where)
            if name in names[:i]:
                raise Co2lError(f"'{name}' is there twice", where=where, fix="name each axis once")
            if isinstance(space.axes[name], Range):
                raise Co2lError(f"'{name}' is a range", where=where, fix=f"list its values under axes.{name}")


def split_by_class(space: S) -> S:
    """With validation examples that no later task has to do with, where the protocol must not see one."""
    protocol = space.selection.protocol
    if not (protocol.first_k or protocol.greedy) or benchmark(space.benchmark).scenario != "class":
        return space
    return space.model_copy(update={"validation": space.validation.model_copy(update={"by": "class"})})


def check_protocol(space: Space) -> None:
    """Trials can be made as the protocol wants them, and what is transferred means something there."""
    protocol, where = space.selection.protocol, f"{space.source}: selection.protocol"
    if protocol.transfer:
        check_transfer(space)
    if protocol.greedy and space.algorithm.name != "grid":
        what = f"greedy tries every value in every task, and {space.algorithm} draws some"
        raise Co2lError(what, where=where, fix="remove algorithm and samples")
    if protocol.greedy and space.early_stop is not None:
        raise Co2lError("greedy stops no trial early", where=where, fix="set early_stop to off")
    if protocol.first_k or protocol.greedy:
        try:
            space.any_trial()
        except Co2lError as error:
            raise Co2lError(error.what, where=where, fix=error.fix) from None


def check_race(space: Space) -> None:
    """There are further seeds to race with, and configurations that can be tried with them."""
    race, where = space.selection.race, f"{space.source}: selection.race"
    if race is None:
        return
    if space.selection.protocol.greedy:
        what = "greedy goes on from states of the space's seeds, and a race tries others"
        raise Co2lError(what, where=where, fix="remove race, or list more seeds")
    if race.seeds <= len(space.seeds):
        what = f"the space has {len(space.seeds)} seeds, and a race tries the best with more than that"
        raise Co2lError(what, where=f"{where}.seeds", fix=f"give a number above {len(space.seeds)}, or remove race")


def rounds_of(space: Space) -> list[int]:
    """How many points each round of a greedy search tries: every choice of its task, from each state of the beam."""
    beam, points = space.selection.protocol.beam, []
    groups = math.prod(len(values) for values in space.lists(space.selection.per))
    states = 1
    for axes in by_task(space.axes).values():
        choices = math.prod(len(axis) for axis in axes.values() if not isinstance(axis, Range))
        points.append(groups * states * choices)
        states = min(beam, states * choices)
    return points


def unseen(space: Space) -> list[str]:
    """The axes between whose values the protocol cannot choose, as no stage of its trials reads them."""
    if space.selection.protocol.first_k != 1:
        return []
    kinds = [METHODS[method].settings_type for method in space.methods_tried]
    return [
        name
        for name in space.drawn_axes
        if name in kinds[0].model_fields and all(kind.scope(of_task(name)[0]) is Scope.LATER for kind in kinds)
    ]
