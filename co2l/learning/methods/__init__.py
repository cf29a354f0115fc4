"""The methods by name: Co²L and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.benchmarks import benchmark as find_benchmark
from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.config import RunConfig, validate
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
    where: str = "",
) -> RunConfig:
    """The method's defaults on this benchmark, overridden by `settings`; errors about those name `where` they are."""
    spec = find_benchmark(benchmark)
    kind = METHODS.find(method)
    if spec.scenario not in kind.scenarios:
        raise Co2lError(
            f"method '{method}' cannot serve {spec.scenario}-incremental '{benchmark}'",
            fix=f"it serves {' and '.join(sorted(kind.scenarios))}-incremental benchmarks",
        )
    values = {"tasks": spec.tasks, **kind.defaults(spec), **(settings or {})}
    validated = validate(kind.settings_type, values, where=where).on(spec)
    arranged = spec.arranged(validated.tasks, validated.class_order, seed, where=where)
    kind.check(validated, arranged, where=where)
    described = None if spec.digest else BENCHMARKS.origin(benchmark)
    used = {described, METHODS.origin(method), ENCODERS.origin(validated.encoder)}
    plugins = tuple(sorted((plugin for plugin in used if plugin is not None), key=str))
    return RunConfig(benchmark, method, seed, split or Split("search"), validated, plugins)
