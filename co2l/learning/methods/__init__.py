"""The methods by name: Co²L and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from co2l.data.benchmarks import BENCHMARKS, Benchmark
from co2l.data.benchmarks import benchmark as find_benchmark
from co2l.data.streams import Split
from co2l.errors import Co2lError, unknown
from co2l.learning.config import RunConfig, Scope, Settings, validate
from co2l.learning.encoders import ENCODERS
from co2l.learning.methods.agem import AGEM
from co2l.learning.methods.base import Method
from co2l.learning.methods.co2l import Co2L
from co2l.learning.methods.der import DER, DERpp
from co2l.learning.methods.er import ER
from co2l.learning.methods.fdr import FDR
from co2l.learning.methods.finetune import Finetune
from co2l.learning.methods.gem import GEM
from co2l.learning.methods.gss import GSS
from co2l.learning.methods.hal import HAL
from co2l.learning.methods.icarl import ICaRL
from co2l.learning.methods.joint import Joint
from co2l.learning.path import SettingsPath, of_task
from co2l.plugins import Registry

OWN: tuple[type[Method], ...] = (Co2L, Joint, Finetune, ER, GEM, AGEM, ICaRL, FDR, GSS, HAL, DER, DERpp)


def _wrong(name: str, thing: object) -> str:
    if not (isinstance(thing, type) and issubclass(thing, Method)):
        return "is not a subclass of Method"
    called = getattr(thing, "name", None)
    return "" if called == name else f"calls itself {called!r}: set name = {name!r} in its class"


METHODS: Registry[type[Method]] = Registry("method", {kind.name: kind for kind in OWN}, _wrong)


def configure(
    benchmark: str,
    method: str,
    settings: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    split: Split | None = None,
    until: int | None = None,
    where: str = "",
) -> RunConfig:
    """The method's defaults on this benchmark, overridden by `settings`; errors about those name `where` they are.

    `kappa/3` among the settings is the value of κ in task 3 alone. The run learns `until` tasks, or all.
    """
    spec = find_benchmark(benchmark)
    kind = METHODS.find(method)
    if spec.scenario not in kind.scenarios:
        raise Co2lError(
            f"method '{method}' cannot serve {spec.scenario}-incremental '{benchmark}'",
            fix=f"it serves {' and '.join(sorted(kind.scenarios))}-incremental benchmarks",
        )
    given = settings or {}
    values = {"tasks": spec.tasks, **kind.defaults(spec)}
    values |= {name: value for name, value in given.items() if of_task(name)[1] is None}
    validated = validate(kind.settings_type, values, where=where).on(spec)
    arranged = spec.arranged(validated.tasks, validated.class_order, seed, where=where)
    kind.check(validated, arranged, where=where)
    split = split or Split("search")
    until = None if until == validated.tasks else until
    if until is not None:
        _check_length(kind, validated, arranged, split, until, where)
    path: SettingsPath = ()
    if len(values) < len(kind.defaults(spec) | {"tasks": 0} | dict(given)):
        validated, path = _path(kind, validated, given, arranged, until, where)
    described = None if spec.digest else BENCHMARKS.origin(benchmark)
    used = {described, METHODS.origin(method), ENCODERS.origin(validated.encoder)}
    plugins = tuple(sorted((plugin for plugin in used if plugin is not None), key=str))
    return RunConfig(benchmark, method, seed, split, validated, plugins, path, until)


def _check_length(kind: type[Method], settings: Any, spec: Benchmark, split: Split, until: int, where: str) -> None:
    """A run of the first tasks is possible, and nothing in it looks at a later one."""
    if not 1 <= until < settings.tasks:
        fix = f"use a number from 1 to {settings.tasks}"
        raise Co2lError(f"{spec.name} has {settings.tasks} tasks, not {until}", where=where, fix=fix)
    if kind.jointly:
        what = f"{kind.name} learns all tasks at once, and nothing before the last one"
        raise Co2lError(what, where=where, fix="let it learn all tasks")
    if getattr(settings, "probe_data", None) == "all":
        what = "probe_data=all looks at later tasks too"
        raise Co2lError(what, where=where, fix="set probe_data to buffer or seen")
    if spec.scenario == "class" and split.kind == "search" and split.by != "class":
        what = "the validation examples are drawn from those of all tasks"
        raise Co2lError(what, where=where, fix="draw them by class: validation: {by: class}")


def _path(
    kind: type[Method], plain: Settings, given: Mapping[str, Any], spec: Benchmark, until: int | None, where: str
) -> tuple[Settings, SettingsPath]:
    """The settings of the first task that reads each, and how other tasks differ."""
    tasks = until or plain.tasks
    different: list[dict[str, Any]] = [{} for _ in range(tasks)]
    for name, value in given.items():
        setting, task = of_task(name)
        if task is None:
            continue
        if setting not in kind.settings_type.model_fields:
            raise unknown("setting", setting, kind.settings_type.model_fields, where=where)
        if task > tasks:
            raise Co2lError(f"{name}: there are {tasks} tasks", where=where, fix=f"use 1 to {tasks}")
        if why := kind.settings_type.why_not_in(setting, task):
            raise Co2lError(f"{name}: {why}", where=where, fix=f"use {setting} without a task, or another task")
        different[task - 1][setting] = value
    base = {name: getattr(plain, name) for name in type(plain).model_fields}
    by_task = [validate(kind.settings_type, base | changed, where=where) for changed in different]
    for settings in by_task:
        kind.check(settings, spec, where=where)
    names = dict.fromkeys(name for changed in different for name in changed)
    first = {name: 1 if plain.scope(name) is Scope.LATER else 0 for name in names}
    usual = {name: getattr(by_task[min(t, tasks - 1)], name) for name, t in first.items()}
    path = [
        tuple(
            (name, value)
            for name in sorted(names)
            if not plain.why_not_in(name, t + 1) and (value := getattr(settings, name)) != usual[name]
        )
        for t, settings in enumerate(by_task)
    ]
    while path and not path[-1]:
        path.pop()
    return plain.model_copy(update=usual), tuple(path)
