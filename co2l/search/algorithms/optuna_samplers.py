"""Any of Optuna's samplers as an algorithm of ours: TPE, Gaussian processes, CMA-ES, quasi-random sequences, …

Each suggestion comes from a fresh study in memory that shows the record: all of it, or of very many points some
(`known`, `replaying`). So it depends on the record and the seed alone, and what a sampler keeps to itself is never read
from a file. The axes that the selection chooses per are not modelled, as the values with higher scores would attract
all samples: the least tried values come next, and scores are compared with the mean of those that have the same values.
"""

from __future__ import annotations

import inspect
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import optuna
from optuna.distributions import IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from co2l.errors import Co2lError, headline, unknown
from co2l.search.algorithms.known import Known
from co2l.search.algorithms.replaying import Replay
from co2l.search.algorithms.shown import Shown
from co2l.search.record.entries import ENDED, Entry, Status
from co2l.search.record.storage import OPTUNA_STATE, distribution
from co2l.search.selection.rule import Outcome, group
from co2l.search.space.document import Range, Value
from co2l.search.space.space import Configuration, Space

STARTUP = 10  # points at random before a model is trusted, where the sampler has such a phase
_PLAIN = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a word"}
_NO_TIME = datetime.fromtimestamp(0, UTC)  # no sampler asks when a trial ran


class OptunaSampler:
    enumerable = False

    def __init__(
        self, space: Space, sampler: str, options: Mapping[str, Value], *, adaptive: bool, stateful: bool, most: int
    ) -> None:
        """`most` is how many of the points that ended the sampler is shown; see `known` and `replaying`."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.adaptive, self._space = adaptive, space
        self._type: type[optuna.samplers.BaseSampler] = getattr(optuna.samplers, sampler)
        self._options = {**_startup(self._type, space.samples or 0), **_checked(self._type, options)}
        fixed = {*space.selection.per, *space.selection.mean_over}
        self._groups = list(itertools.product(*space.lists(space.selection.per)))
        self._ranks = {name: _ranked(axis) for name, axis in space.axes.items() if name not in fixed}
        self._modelled = {
            name: IntDistribution(0, len(ranked) - 1) if ranked else distribution(space.axes[name])
            for name, ranked in self._ranks.items()
        }
        self._known_params: dict[Configuration, dict[str, Any]] = {}  # of the points that were shown before
        most = max(most, *(4 * int(self._options.get(name) or 0) for name in ("population_size", "popsize")))
        self._known = Known(space, most)
        self._replay = Replay(space, most, self._ask, self._params) if stateful else None
        self._sampler(0)

    def suggest(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        return self._by_results(entries, tried, seed) if self.adaptive else self._by_index(seed)

    def _by_results(
        self, entries: Iterable[Entry], tried: Collection[Configuration], seed: int
    ) -> Iterator[dict[str, Value]]:
        self._known.read(entries)
        drawn = self._known.drawn(tried)
        least, study = self._least_tried(drawn), self._study(drawn, seed)
        for attempt in itertools.count():
            study.sampler = self._sampler(_draw(seed, len(drawn), attempt))
            asked = self._ask(study)
            yield self._point(least, asked.params)
            study.tell(asked, state=TrialState.FAIL)  # tried before, and what came of it is in the study already

    def _by_index(self, seed: int) -> Iterator[dict[str, Value]]:
        """The sampler's own sequence, each of its points for every group in turn."""
        study = optuna.create_study(direction="maximize")
        study.sampler = self._sampler(seed)
        some = {name: _lowest(each) for name, each in self._modelled.items()}
        study.add_trial(create_trial(value=0.0, params=some, distributions=self._modelled))  # shows it the axes
        while True:
            asked = self._ask(study)
            yield from (self._point(values_of_group, asked.params) for values_of_group in self._groups)
            study.tell(asked, state=TrialState.FAIL)

    def _least_tried(self, drawn: Sequence[Configuration]) -> tuple[Value, ...]:
        """The values, of the axes that the selection chooses per, that the fewest points have."""
        counts = Counter(dict.fromkeys(self._groups, 0))
        if len(counts) > 1:
            counts.update(group(self._space, point) for point in drawn)
        return min(counts, key=lambda values: counts[values])

    def _study(self, drawn: Sequence[Configuration], seed: int) -> optuna.Study:
        """What is known, as Optuna's trials."""
        if self._replay is not None:
            return self._replay.study(drawn, self._known, seed, lambda number: self._sampler(_draw(seed, number, 0)))
        points = self._known.shown(drawn)
        levels = self._known.levels(points)
        past = [
            self._past(number, point, outcome, levels.get(point, 0.0))
            for number, (point, outcome) in enumerate(points.items())
        ]
        return Shown(past, len(drawn)).study

    def _past(self, number: int, point: Configuration, outcome: Outcome | None, level: float) -> FrozenTrial:
        """A point as one of Optuna's trials; `create_trial` would check each of them again at every suggestion."""
        status: Status = "running" if outcome is None else outcome.status
        return FrozenTrial(
            number=number,
            trial_id=number,
            state=OPTUNA_STATE[status],
            value=level if status == "done" else None,
            params=self._params(point),
            distributions=self._modelled,
            intermediate_values={outcome.tasks: level} if outcome and status == "pruned" else {},
            datetime_start=_NO_TIME,
            datetime_complete=_NO_TIME if status in ENDED else None,
            user_attrs={},
            system_attrs={},
        )

    def _params(self, point: Configuration) -> dict[str, Any]:
        if (params := self._known_params.get(point)) is None:
            params = {
                name: self._ranks[name].index(value) if self._ranks[name] else value
                for name, value in point
                if name in self._ranks
            }
            self._known_params[point] = params
        return params

    def _ask(self, study: optuna.Study) -> optuna.Trial:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of axes that a sampler draws at random, as it cannot model them
            return study.ask(self._modelled)

    def _point(self, of_group: tuple[Value, ...], params: Mapping[str, Any]) -> dict[str, Value]:
        values = {name: self._ranks[name][v] if self._ranks[name] else v for name, v in params.items()}
        return {**dict(zip(self._space.selection.per, of_group, strict=True)), **values}

    def _sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls some of its samplers experimental
            try:
                return self._type(**self._options, seed=seed)  # type: ignore[call-arg]  # all of ours take one
            except (TypeError, ValueError) as error:
                raise Co2lError(headline(error), fix="see the sampler's options in Optuna's documentation") from None


def _draw(seed: int, points: int, attempt: int) -> int:
    return random.Random(f"{seed}/{points}/{attempt}").getrandbits(32)


def _startup(sampler: type, samples: int) -> dict[str, int]:
    """With few samples a model is trusted early."""
    phase = inspect.signature(sampler).parameters.get("n_startup_trials")
    return {"n_startup_trials": min(STARTUP, 2 + samples // 4)} if phase and phase.default == STARTUP else {}


def _checked(sampler: type, options: Mapping[str, Value]) -> dict[str, Value]:
    """The options, if the sampler has them and YAML can express them."""
    valid: dict[str, list[str]] = {}
    for name, parameter in inspect.signature(sampler).parameters.items():
        kinds = [kind for kind in str(parameter.annotation).split(" | ") if kind != "None"]
        if name != "seed" and not name.startswith("warn_") and set(kinds) <= _PLAIN.keys():
            valid[name] = kinds
    for name, value in options.items():
        if name not in valid:
            raise unknown("option", name, valid)
        kind = type(value).__name__
        if kind not in valid[name] and not (kind == "int" and "float" in valid[name]):
            raise Co2lError(f"{name} is {value!r}", fix=f"give {' or '.join(_PLAIN[each] for each in valid[name])}")
    return dict(options)


def _ranked(axis: tuple[Value, ...] | Range) -> list[Any]:
    """The values of a list of numbers by size: a sampler sees their ranks, and so which are neighbours."""
    if isinstance(axis, Range) or any(isinstance(value, bool | str) for value in axis):
        return []
    return sorted(axis, key=float)


def _lowest(axis: optuna.distributions.BaseDistribution) -> Any:
    return axis.choices[0] if isinstance(axis, optuna.distributions.CategoricalDistribution) else axis.low  # type: ignore[attr-defined]
