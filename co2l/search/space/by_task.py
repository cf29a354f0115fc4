"""Which axes have a value of their own for every task: `kappa` becomes `kappa/2`, `kappa/3`, …"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from co2l.data.benchmarks import benchmark
from co2l.errors import Co2lError, unknown
from co2l.learning.config import STREAM
from co2l.learning.methods import METHODS
from co2l.learning.path import in_task, of_task
from co2l.search.space.document import METHOD, VARIANT, Range

if TYPE_CHECKING:
    from co2l.search.space.space import Space

    S = TypeVar("S", bound=Space)
A = TypeVar("A")


def spread(space: S) -> S:
    """The space with an axis for every task that reads one of those under `per_task`, or one that greedy chooses."""
    greedy = space.selection.protocol.greedy is not None
    kept = {*STREAM, *space.selection.per, *space.selection.mean_over}
    chosen = [name for name in space.axes if name not in kept and of_task(name)[1] is None] if greedy else ()
    names = tuple(dict.fromkeys([*space.per_task, *chosen]))
    if not names:
        return space
    where = f"{space.source}: " + ("selection.protocol" if greedy else "per_task")
    tasks = _tasks(space, where)
    of = {name: _read_in(space, name, tasks, where) for name in names}
    axes = {name: axis for name, axis in space.axes.items() if name not in of}
    for task in range(1, tasks + 1):
        axes |= {in_task(name, task): space.axes[name] for name, read in of.items() if task in read}
    return space.model_copy(update={"axes": axes, "per_task": ()})


def by_task(axes: Mapping[str, A]) -> dict[int, dict[str, A]]:
    """The axes of each task, from the first that has some."""
    found: dict[int, dict[str, A]] = {}
    for name, axis in axes.items():
        if (task := of_task(name)[1]) is not None:
            found.setdefault(task, {})[name] = axis
    return dict(sorted(found.items()))


def merged(names: Iterable[str]) -> dict[str, list[str]]:
    """The axes of each setting."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(of_task(name)[0], []).append(name)
    return found


def _tasks(space: Space, where: str) -> int:
    """How many tasks a trial learns, the same for all."""
    if "tasks" in space.axes or any("tasks" in settings for settings in space.variants.values()):
        raise Co2lError("trials learn different numbers of tasks", where=where, fix="give tasks one value")
    whole = int(space.settings.get("tasks", benchmark(space.benchmark).tasks))
    return min(whole, space.selection.protocol.first_k or whole)


def _read_in(space: Space, name: str, tasks: int, where: str) -> list[int]:
    """The tasks that read the setting, by all methods tried."""
    if name not in space.axes:
        raise unknown("axis", name, space.axes, where=where)
    if name in (VARIANT, METHOD):
        fix = "give it one value, or name it under selection.per"
        raise Co2lError(f"{name} is the same for all tasks", where=where, fix=fix)
    if isinstance(space.axes[name], Range) and space.selection.protocol.greedy:
        raise Co2lError(f"greedy tries every value, and '{name}' is a range", where=where, fix="list its values")
    kinds = [METHODS[method].settings_type for method in space.methods_tried]
    reasons = [next(filter(None, (kind.why_not_in(name, task) for kind in kinds)), "") for task in range(1, tasks + 1)]
    if not any(reason == "" for reason in reasons):
        fix = f"give {name} one value, or name it under selection.per"
        raise Co2lError(reasons[-1], where=where, fix=fix)
    return [task for task, reason in enumerate(reasons, 1) if not reason]
