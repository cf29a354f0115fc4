"""Which point to try next, by Optuna's TPE."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import optuna
from optuna.distributions import IntDistribution
from optuna.trial import TrialState, create_trial

from co2l.search.document import Range, Value
from co2l.search.reports import Configuration
from co2l.search.selection import group, lists, outcomes, relative
from co2l.search.space import Space
from co2l.search.study import STATUS, Record, distribution


def suggest(space: Space, record: Record, seed: int, drawn: Iterable[Configuration] = ()) -> Iterator[dict[str, Value]]:
    """Points by TPE for `Space.cells_of`, until one is taken; `drawn` are those taken whose cells may not have begun.

    They depend on these arguments alone, so that a search that was stopped goes on as if it had not been. The axes
    that the selection chooses per are not modelled, as the values with higher scores would attract all samples: the
    least tried values come next, and scores are compared to the mean of those with the same values.
    """
    per = space.selection.per
    fixed = {*per, *space.selection.mean_over}
    ranks = {name: _ranked(axis) for name, axis in space.axes.items() if name not in fixed}
    modelled = {
        name: IntDistribution(0, len(ranked) - 1) if ranked else distribution(space.axes[name])
        for name, ranked in ranks.items()
    }
    known = {outcome.configuration: outcome for outcome in outcomes(space, record.entries.values())}
    points = {**dict.fromkeys(drawn), **known}
    tried = Counter(dict.fromkeys(itertools.product(*lists(space, per)), 0))
    tried.update(group(space, point) for point in points)
    levels = relative(space, known.values())
    study = optuna.create_study(direction="maximize")
    for point, outcome in points.items():
        values = {name: ranks[name].index(v) if ranks[name] else v for name, v in point if name in ranks}
        status, tasks = (outcome.status, outcome.tasks) if outcome is not None else ("running", 0)
        state = next(state for state, each in STATUS.items() if each == status)
        value = levels[point] if status == "done" else None
        steps = {tasks: levels[point]} if status == "pruned" else {}
        past = create_trial(state=state, value=value, params=values, distributions=modelled, intermediate_values=steps)
        study.add_trial(past)
    least = min(tried, key=lambda values: tried[values])
    startup = min(10, 2 + (space.samples or 0) // 4)  # with few samples the model is trusted early
    for attempt in itertools.count():
        draw = random.Random(f"{seed}/{len(points)}/{attempt}").getrandbits(32)
        study.sampler = optuna.samplers.TPESampler(seed=draw, n_startup_trials=startup, constant_liar=True)
        asked = study.ask(modelled)
        values = {name: ranks[name][v] if ranks[name] else v for name, v in asked.params.items()}
        yield {**dict(zip(per, least, strict=True)), **values}
        study.tell(asked, state=TrialState.FAIL)  # tried before, and what came of it is in the study already


def _ranked(axis: tuple[Value, ...] | Range) -> list[Any]:
    """The values of a list of numbers by size: TPE sees their ranks, and so tells neighbours from strangers."""
    if isinstance(axis, Range) or any(isinstance(value, bool | str) for value in axis):
        return []
    return sorted(axis, key=float)
