"""Whether the values of a space make sense for its benchmark and its method, and together."""

from __future__ import annotations

import itertools
import math
import re
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from co2l.data.benchmarks import benchmark
from co2l.errors import Co2lError, unknown
from co2l.learning.methods import METHODS, configure
from co2l.learning.path import of_task
from co2l.search.algorithms.registry import algorithm_of
from co2l.search.space.by_task import spread
from co2l.search.space.document import METHOD, MOST_TRIALS, VARIANT, Document, EarlyStop, Range, Value
from co2l.search.space.protocol import averaged, check_choice, check_protocol, check_race, rounds_of, split_by_class

if TYPE_CHECKING:
    from co2l.learning.config import RunConfig
    from co2l.search.space.space import Space

    S = TypeVar("S", bound=Space)


def checked(space: S) -> S:
    """The space with its values as the settings take them; an error names the file, the key and what would be right."""
    benchmark(space.benchmark, where=f"{space.source}: benchmark")
    _check_methods(space)
    if not (space.axes or space.variants):
        what = "nothing is listed" if "axes" in space.model_fields_set else "the key 'axes' is missing"
        where = f"{space.source}: axes" if "axes" in space.model_fields_set else space.source
        raise Co2lError(what, where=where, fix=f"axes is: {Document.model_fields['axes'].description}")
    if space.variants and VARIANT not in space.axes:
        space = space.model_copy(update={"axes": {VARIANT: tuple(space.variants), **space.axes}})
    _check_names(space)
    space = space.model_copy(update={"selection": averaged(space)})
    space = split_by_class(spread(space))
    axes = _checked_axes(space)
    space = space.model_copy(update={"axes": axes, "variants": _checked_variants(space, axes)})
    check_choice(space)
    check_protocol(space)
    check_race(space)
    space = space.model_copy(update={"start": _checked_start(space)})
    _check_algorithm(space)
    _check_amount(space)
    return space.model_copy(update={"early_stop": _checked_early_stop(space)})


def _check_methods(space: Space) -> None:
    """Those that are tried exist, wherever they are named."""
    listed = space.axes.get(METHOD, ())
    if isinstance(listed, Range):
        raise Co2lError(
            "methods have no range", where=f"{space.source}: axes.{METHOD}", fix="list them, as [er, derpp]"
        )
    if listed and space.method != Document.model_fields[METHOD].default:
        raise Co2lError("method is an axis too", where=f"{space.source}: method", fix="keep it in one of the two")
    named = {f"axes.{METHOD}": listed, "methods": space.methods, METHOD: (space.method,)}
    named |= {f"variants.{name}": (each[METHOD],) for name, each in space.variants.items() if METHOD in each}
    for section, names in named.items():
        for name in names:
            METHODS.find(str(name), where=f"{space.source}: {section}")
    if space.methods and not listed:
        fix = f"add axes: {{{METHOD}: [{', '.join(space.methods)}]}}, or move them to settings"
        raise Co2lError("no method is an axis", where=f"{space.source}: methods", fix=fix)


def _sections(space: Space) -> dict[str, tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Every part of the file that names settings, and the methods that have to know them."""
    variants = {
        f"variants.{name}": (settings, (space.method_of({VARIANT: name}),))
        for name, settings in space.variants.items()
        if METHOD not in space.axes
    }
    methods = {f"methods.{name}": (settings, (name,)) for name, settings in space.methods.items()}
    tried = space.methods_tried
    return {"settings": (space.settings, tried), "axes": (space.axes, tried), **variants, **methods}


def _check_names(space: Space) -> None:
    for section, (names, methods) in _sections(space).items():
        for name, method in itertools.product(names, methods):
            fields = METHODS[method].settings_type.model_fields
            setting = of_task(name)[0]
            named = (section == "axes" and name == VARIANT and space.variants) or (
                section != "settings" and name == METHOD
            )
            if setting in fields or named:
                continue
            where = f"{space.source}: {section}.{name}"
            if name in ("seed", "seeds"):
                raise Co2lError("a seed is not a setting", where=where, fix="list them under the key seeds, as [0, 1]")
            owners = [other for other, kind in METHODS.items() if setting in kind.settings_type.model_fields]
            if not owners:
                raise unknown("setting", setting, fields, where=f"{space.source}: {section}")
            know = [other for other in space.methods_tried if other in owners]
            fix = f"remove it, or set method to {' or '.join(owners)}"
            fix = f"give it under methods.{know[0]} alone" if know else fix
            raise Co2lError(f"'{name}' is not a setting of method '{method}'", where=where, fix=fix)
    _check_once(space)


def _check_once(space: Space) -> None:
    """Every setting is given in one part of the file, and has one value unless it is an axis."""
    parts = {f"variants.{name}": settings for name, settings in space.variants.items()}
    parts |= {f"methods.{name}": settings for name, settings in space.methods.items()}
    if space.variants:
        listed = space.axes[VARIANT]
        for name in ("a range",) if isinstance(listed, Range) else map(str, listed):
            if name not in space.variants:
                raise unknown("variant", name, space.variants, where=f"{space.source}: axes.{VARIANT}")
    for section, settings in {"axes": space.axes, **parts}.items():
        for name in space.settings.keys() & settings.keys():
            where = f"{space.source}: {section}.{name}"
            raise Co2lError(f"{name} is fixed under settings too", where=where, fix="keep it in one of the two")
    for section, settings in {"settings": space.settings, **parts}.items():
        for name, value in settings.items():
            where = f"{space.source}: {section}.{name}"
            if section != "settings" and name in space.axes:
                raise Co2lError(f"{name} is an axis too", where=where, fix="keep it in one of the two")
            if not isinstance(value, Value):
                fix = "give it one value here, or list several under axes"
                raise Co2lError(f"{reprlib.repr(value)} is not one value", where=where, fix=fix)


def _check_algorithm(space: Space) -> None:
    """The algorithm exists, takes its options, and has `samples` unless it lists its points itself."""
    algorithm, name = algorithm_of(space), space.algorithm.name
    if algorithm.enumerable and space.samples is not None:
        fix = "remove it, or set algorithm to random or tpe"
        what = f"a {name} tries all of its trials and takes no number of samples"
        raise Co2lError(what, where=f"{space.source}: samples", fix=fix)
    if not algorithm.enumerable and space.samples is None:
        fix = "say how many configurations to try, as samples: 50"
        raise Co2lError(f"the key 'samples' is missing for algorithm '{name}'", where=space.source, fix=fix)
    if name == "thaw":
        if why := why_no_scores(space):
            what = f"thaw compares the accuracies after each task, and {why}"
            raise Co2lError(what, where=f"{space.source}: algorithm", fix="use grid, random or tpe")
        if space.early_stop is not None:
            what = "thaw pauses trials by itself, and none of them stops for good"
            raise Co2lError(what, where=f"{space.source}: early_stop", fix="set early_stop to off")
    for axis in space.axes if algorithm.enumerable else ():
        if isinstance(space.axes[axis], Range):
            raise countless(axis, space.source)


def _check_amount(space: Space) -> None:
    """A grid that no machine can even list is a slip."""
    if space.selection.protocol.greedy:
        amount = sum(rounds_of(space)) * space.trials_per_point
    else:
        listed = (axis for axis in space.axes.values() if not isinstance(axis, Range))
        amount = math.prod(map(len, listed)) * len(space.seeds)
    if algorithm_of(space).enumerable and amount > MOST_TRIALS:
        fix = f"list fewer values, for at most {MOST_TRIALS:,} trials, or set algorithm to random or tpe"
        raise Co2lError(f"the grid has {amount:.3g} trials", where=f"{space.source}: axes", fix=fix)


def countless(name: str, source: str) -> Co2lError:
    fix = "list its values, as [0.1, 0.5], or set algorithm to random or tpe"
    return Co2lError("a range has no grid", where=f"{source}: axes.{name}", fix=fix)


def _checked_axes(space: Space) -> dict[str, tuple[Value, ...] | Range]:
    """The axes with their values as the settings take them, so that 1 and 1.0 are the same learning rate."""
    first = _first(space.axes)
    _taken(space, first, "")
    axes: dict[str, tuple[Value, ...] | Range] = {}
    for name, axis in space.axes.items():
        where = f"{space.source}: axes.{name}"
        if isinstance(axis, Range):
            axes[name] = _checked_range(space, name, axis, first, where)
            continue
        values = list(axis) if name in (VARIANT, METHOD) else [_taken_by_all(space, first, name, v) for v in axis]
        seen: set[Value] = set()
        for value in values:
            if value in seen:
                raise Co2lError(f"the value {value!r} is there twice", where=where, fix="list each value once")
            seen.add(value)
        axes[name] = tuple(values)
    return axes


def _first(axes: Mapping[str, tuple[Value, ...] | Range]) -> dict[str, Value]:
    return {name: axis.low if isinstance(axis, Range) else axis[0] for name, axis in axes.items()}


def _checked_variants(space: Space, axes: Mapping[str, tuple[Value, ...] | Range]) -> dict[str, dict[str, Value]]:
    """The variants with their values as the settings take them; each is another one than those before it."""
    first = _first(axes)
    variants: dict[str, dict[str, Value]] = {}
    found: dict[RunConfig, str] = {}
    for name, settings in space.variants.items():
        point = {**first, VARIANT: name}
        taken = {setting: _taken(space, point, setting) for setting in settings if setting != METHOD}
        variants[name] = {**settings, **taken}
        same = found.setdefault(space.config(point, 0), name)
        if same != name:
            where = f"{space.source}: variants.{name}"
            raise Co2lError(f"has the same settings as '{same}'", where=where, fix="keep one of the two")
    return variants


def _checked_range(space: Space, name: str, axis: Range, first: Mapping[str, Value], where: str) -> Range:
    low, high = (_taken_by_all(space, first, name, end) for end in (axis.low, axis.high))
    if isinstance(low, bool | str) or isinstance(high, bool | str):
        raise Co2lError(f"{name} is not a number and has no range", where=where, fix="list its values")
    if low >= high:
        raise Co2lError(f"low {low} is not below high {high}", where=where, fix="put the smaller value in low")
    if axis.log and low <= 0:
        fix = "use a low above 0, or leave out log"
        raise Co2lError(f"a logarithmic range cannot start at {low}", where=where, fix=fix)
    return Range(low=low, high=high, log=axis.log)


def _taken_by_all(space: Space, first: Mapping[str, Value], name: str, value: Any) -> Any:
    """The value of an axis as the methods take it, each of which has to."""
    for method in space.methods_tried if METHOD in space.axes else ():
        _taken(space, {**first, METHOD: method, name: value}, name)
    return _taken(space, {**first, name: value}, name)


def _taken(space: Space, values: Mapping[str, Any], name: str) -> Any:
    """The value of setting `name` as the method takes it at this point of the space."""
    given = space.given(values)
    for each, value in given.items():
        if not isinstance(value, Value):
            where = f"{space.source}: axes.{each}"
            raise Co2lError(f"{reprlib.repr(value)} is not one value", where=where, fix="list plain values")
    try:
        config = configure(space.benchmark, space.method_of(values), given)
    except Co2lError as error:
        raise _located(error, space, values) from None
    for each, value in given.items():
        if isinstance(value, bool) and not isinstance(config.value(each), bool):  # pydantic takes true for 1
            about = type(config.settings).model_fields[of_task(each)[0]].description or "a number"
            where = f"{space.source}: {_section(space, each, values)}.{each}"
            raise Co2lError(
                f"true or false where a number should be, got {value}", where=where, fix=f"{each} is: {about}"
            )
    return config.value(name) if hasattr(config.settings, of_task(name)[0]) else None


def _section(space: Space, name: str, values: Mapping[str, Any]) -> str | None:
    """Where the file sets `name` at this point of the space, if it does."""
    variant, method = values.get(VARIANT, ""), space.method_of(values)
    sections = {"axes": space.axes, "settings": space.settings, f"variants.{variant}": space.variants.get(variant, {})}
    sections[f"methods.{method}"] = space.methods.get(method, {})
    return next((section for section, names in sections.items() if name in names), None)


def _located(error: Co2lError, space: Space, values: Mapping[str, Any]) -> Co2lError:
    """The same error at the key whose setting it starts with."""
    match = re.match(r"([\w/]+)(: )?", error.what)
    some = space.given(values)
    name = next((each for each in some if match and each == match[1]), None)
    name = name or next((each for each in some if match and of_task(each)[0] == match[1]), None)
    section = _section(space, name, values) if name else None
    if section is None or match is None:
        return Co2lError(error.what, where=space.source, fix=error.fix)
    what = error.what[match.end() :] if match[2] else error.what
    return Co2lError(what, where=f"{space.source}: {section}.{name}", fix=error.fix)


def _checked_start(space: Space) -> tuple[dict[str, Value], ...]:
    """The points to try first, with values as they are on their axes."""
    for number, point in enumerate(space.start, 1):
        where = f"{space.source}: start, point {number}"
        for name, value in point.items():
            if name not in space.drawn_axes:
                raise unknown("axis", name, space.drawn_axes, where=where)
            if not _is_on(space.axes[name], value):
                fix = f"add it under axes.{name}, or remove it here"
                raise Co2lError(f"{reprlib.repr(value)} is no value of the axis {name}", where=where, fix=fix)
        for name in (name for name in space.drawn_axes if name not in point):
            if isinstance(space.axes[name], Range):
                raise Co2lError(f"'{name}' is a range and has no value", where=where, fix=f"give {name} a value")
    return tuple({name: _as_on(space.axes[name], value) for name, value in point.items()} for point in space.start)


def _is_on(axis: tuple[Value, ...] | Range, value: Any) -> bool:
    if not isinstance(axis, Range):
        return value in axis
    kinds = (int, float) if isinstance(axis.low, float) else int
    return isinstance(value, kinds) and not isinstance(value, bool) and axis.low <= value <= axis.high


def _as_on(axis: tuple[Value, ...] | Range, value: Any) -> Value:
    """1 and 1.0 are the same learning rate."""
    return type(axis.low)(value) if isinstance(axis, Range) else axis[axis.index(value)]


def why_no_scores(space: Space) -> str:
    """Why nothing is known of a trial after each task; empty if it is."""
    for method in (name for name in space.methods_tried if METHODS[name].jointly):
        return f"{method} learns all tasks at once"
    together = (*space.variants.values(), *space.methods.values())
    of_variants = (settings.get("matrix_probe") for settings in together)
    if "none" in (space.settings.get("matrix_probe"), *(space.axes.get("matrix_probe") or ()), *of_variants):
        return "matrix_probe none measures none"
    return ""


def _checked_early_stop(space: Space) -> EarlyStop | None:
    """With its rungs; by default there is one after every task but the first, which many share, and the last."""
    if space.early_stop is None:
        return None
    if why := why_no_scores(space):
        what = f"early stopping compares the accuracies after each task, and {why}"
        fix = "leave matrix_probe out, or set early_stop to off" if "probe" in why else "set early_stop to off"
        raise Co2lError(what, where=f"{space.source}: early_stop", fix=fix)
    last = _fewest_tasks(space) - 1
    if last == 0:
        what, fix = "a trial that learns one task cannot be stopped after it", "set early_stop to off"
        raise Co2lError(what, where=f"{space.source}: early_stop", fix=fix)
    rungs = space.early_stop.rungs or tuple(range(min(2, last), last + 1))
    if rungs[-1] > last:
        what = f"a rung after {rungs[-1]} tasks stops nothing: {space.benchmark} has {last + 1} here"
        raise Co2lError(what, where=f"{space.source}: early_stop.rungs", fix=f"use numbers from 1 to {last}")
    return space.early_stop.model_copy(update={"rungs": rungs})


def _fewest_tasks(space: Space) -> int:
    """Of the streams that trials learn."""
    some = space.any_trial()
    varied = {name: space.axes[name] for name in ("tasks", VARIANT, METHOD) if name in space.axes}
    points = [dict(zip(varied, values, strict=True)) for values in itertools.product(*varied.values())]
    return min(len(space.trial({**some.values, **point}, some.seed).config.epochs) for point in points)
