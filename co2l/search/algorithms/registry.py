"""Which search algorithms there are, and the interface that each of them fills.

A space names its algorithm, with options if there are any: `algorithm: tpe`, or `algorithm: {name: gp,
n_startup_trials: 8}`. Another sampler of Optuna is one line at the end of this module; an algorithm of your own is a
class with the attributes and the method of `Algorithm`, which a plug-in adds (`co2l.plugins`). Every algorithm has to
keep the promises of `co2l.testing.algorithms`.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from co2l.errors import Co2lError
from co2l.plugins import Registry

if TYPE_CHECKING:  # the space asks for its algorithm while it is checked: at run time nothing here needs the space
    from co2l.search.record.entries import Entry
    from co2l.search.space.document import Value
    from co2l.search.space.space import Configuration, Space


class Algorithm(Protocol):
    """Proposes points: a value for every axis that the selection does not average over."""

    enumerable: bool  # whether it lists its points, all on the grid and without results; then it takes no `samples`
    adaptive: bool  # whether its points depend on results: then each is drawn as late as possible

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[Mapping[str, Value]]:
        """Points in order of preference, of which the first that was never tried is taken.

        A function of its arguments alone, so that a killed search continues as if nothing had happened: `entries` is
        what the record knows of each trial, `tried` holds the points drawn so far, in that order, even those whose
        trials have not begun. An algorithm that is not adaptive may ignore both, and yields the same points each time.
        """


class Maker(Protocol):
    """An algorithm's class, or a function that makes one; a wrong option is a `Co2lError`."""

    def __call__(self, space: Space, **options: Value) -> Algorithm: ...


MOST_POINTS = 10_000  # that `auto` gives to thaw, which keeps all of them in mind
MOST_SHOWN = 1000  # of the points that ended, so that a suggestion does not take longer and longer


def algorithm_of(space: Space) -> Algorithm:
    """The algorithm that a space names, with its options; an error says which names, options or packages there are."""
    name, where = space.algorithm.name, f"{space.source}: algorithm"
    make = ALGORITHMS.find(name, where=where)
    try:
        return make(space, **space.algorithm.options)
    except Co2lError as error:
        raise Co2lError(error.what, where=where, fix=error.fix) from None


def _ours(path: str) -> Maker:
    """A class of this package without options; imported when a space names it."""

    def make(space: Space, **options: Value) -> Algorithm:
        module, _, name = path.rpartition(".")
        if options:
            raise Co2lError(f"'{space.algorithm.name}' takes no options", fix=f"remove {', '.join(options)}")
        made: Algorithm = getattr(importlib.import_module(f"co2l.search.algorithms.{module}"), name)(space)
        return made

    return make


def optuna_sampler(
    name: str, *needs: str, adaptive: bool = True, stateful: bool = False, most: int = MOST_SHOWN
) -> Maker:
    """A sampler of `optuna.samplers` by its class's name; `needs` are packages that Optuna itself does not install.

    `adaptive` as in `Algorithm`. `stateful` if the sampler leaves notes with the trials that it suggests and needs them
    later: then it is taken through the search again. Of `most` points it is shown all that ended; of more, so many.
    """

    def make(space: Space, **options: Value) -> Algorithm:
        if missing := [package for package in needs if importlib.util.find_spec(package) is None]:
            what = f"'{space.algorithm.name}' needs the package {' and '.join(missing)}, which is not installed"
            raise Co2lError(what, fix=f"pip install {' '.join(missing)}")
        from co2l.search.algorithms.optuna_samplers import OptunaSampler

        return OptunaSampler(space, name, options, adaptive=adaptive, stateful=stateful, most=most)

    return make


def _auto(space: Space, **options: Value) -> Algorithm:
    """Thaw where it can: points that can be listed, and scores after every task; else TPE."""
    from co2l.search.space.checks import why_no_scores
    from co2l.search.space.document import Range

    amount = math.prod(math.inf if isinstance(axis, Range) else len(axis) for axis in space.axes.values())
    few = amount <= MOST_POINTS
    thaws = few and space.samples is None and not why_no_scores(space) and space.early_stop is None
    return ALGORITHMS["thaw" if thaws else "tpe"](space, **options)


_OWN: dict[str, Maker] = {
    "grid": _ours("grid.Grid"),
    "random": _ours("random_search.RandomSearch"),
    "thaw": _ours("thaw.Thaw"),
    "auto": _auto,
    "tpe": optuna_sampler("TPESampler"),
    "gp": optuna_sampler("GPSampler", "scipy", "torch", most=300),
    "cmaes": optuna_sampler("CmaEsSampler", "cmaes", stateful=True),
    "qmc": optuna_sampler("QMCSampler", "scipy", adaptive=False),
    "nsgaii": optuna_sampler("NSGAIISampler", stateful=True),
}
ALGORITHMS: Registry[Maker] = Registry(
    "algorithm", _OWN, lambda _, thing: "" if callable(thing) else "is not a class or function that makes one"
)
