"""Peers from packages that are not among ours: SMAC3 and Syne Tune, each with its own scheduler and model.

    pip install -c constraints.txt smac          # smac-hyperband, smac-forest
    pip install -c constraints.txt syne-tune     # syne-bohb

Syne Tune's dependencies include xgboost, and with it a large CUDA package; `--no-deps` leaves it out. `peers.drive`
runs them. Halving is by two, as for the other peers; all else is as the packages have it. A trial that SMAC3 continues
on a larger budget finds its stages stored. Syne Tune's BORE and conformal quantile regression are left out: BORE draws
thousands of distinct candidates for each suggestion, more than these grids have, and neither ended a study in a minute.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

from co2l.errors import Co2lError
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

REPEATS = 50  # suggestions in a row that were tried before, until a search ends


class _Axes:
    """The grid as these packages see it: numbers by rank, words as they are; an axis with one value is left out."""

    def __init__(self, space: Space, rows: Sequence[Trial]) -> None:
        lists = dict(zip(space.axes, space.lists(space.axes), strict=True))
        self.words = {name: list(each) for name, each in lists.items() if _is_words(each) and len(each) > 1}
        self.ranks = {name: sorted(each, key=float) for name, each in lists.items()
                      if not _is_words(each) and len(each) > 1}  # fmt: skip
        self._names = [*self.words, *self.ranks]
        self._numbers = {tuple(trial.values[name] for name in self._names): i for i, trial in enumerate(rows)}

    def number(self, found: Any) -> int:
        """Of the trial with these words and ranks."""
        words = [self.words[name][int(found[name])] for name in self.words]
        return self._numbers[(*words, *(self.ranks[name][int(found[name])] for name in self.ranks))]


def _is_words(values: Sequence[Any]) -> bool:
    return any(isinstance(value, bool | str) for value in values)


class SmacPeer:
    """SMAC3: Hyperband with a random forest, or the forest alone with whole trials."""

    def __init__(self, space: Space, rows: Sequence[Trial], seed: int, trials: int, *, hyperband: bool) -> None:
        """`trials` is how many whole ones the budget pays for."""
        try:
            import ConfigSpace
            import smac
            from smac.intensifier.hyperband import Hyperband
        except ImportError:
            raise Co2lError("SMAC3 is not installed", where="--search", fix="pip install smac") from None
        self._axes, self._tasks = _Axes(space, rows), len(rows[0].config.epochs)
        axes = ConfigSpace.ConfigurationSpace(seed=seed)
        for name, values in self._axes.words.items():
            axes.add(ConfigSpace.Categorical(name, list(range(len(values)))))
        for name, values in self._axes.ranks.items():
            axes.add(ConfigSpace.Integer(name, (0, len(values) - 1)))
        self._folder = tempfile.TemporaryDirectory()
        more = {"min_budget": 1, "max_budget": self._tasks} if hyperband else {}
        scenario = smac.Scenario(
            axes, deterministic=True, n_trials=trials, seed=seed, output_directory=self._folder.name, **more
        )
        kind = smac.MultiFidelityFacade if hyperband else smac.HyperparameterOptimizationFacade
        more = {"intensifier": Hyperband(scenario, eta=2)} if hyperband else {}
        self._smac = kind(scenario, _budgeted if hyperband else _whole, overwrite=True, logging_level=False, **more)
        self._asked: dict[int, Any] = {}  # what runs
        self._score: dict[int, float] = {}

    def ask(self) -> int | None:
        try:
            asked = self._smac.ask()
        except StopIteration:
            return None
        number = self._axes.number(asked.config)
        self._asked[number] = asked
        return number

    def _target(self, trial: int) -> int:
        return round(self._asked[trial].budget or self._tasks)

    def goes_on(self, trial: int, finished_tasks: int, score: float) -> bool:
        self._score[trial] = score
        return finished_tasks < self._target(trial)

    def ended(self, trial: int, score: float | None) -> None:
        from smac.runhistory.dataclasses import TrialValue

        final = self._score[trial] if score is None else score
        self._smac.tell(self._asked.pop(trial), TrialValue(cost=-final), save=False)


def _budgeted(config: Any, seed: int = 0, budget: float = 0.0) -> float:
    """SMAC3 wants a function to run, although it is only asked and told here."""
    raise NotImplementedError


def _whole(config: Any, seed: int = 0) -> float:
    raise NotImplementedError


class SynePeer:
    """Syne Tune's asynchronous halving with the densities of BOHB."""

    def __init__(self, space: Space, rows: Sequence[Trial], seed: int) -> None:
        try:
            from syne_tune.config_space import choice, randint
            from syne_tune.optimizer.baselines import BOHB
        except ImportError:
            raise Co2lError("Syne Tune is not installed", where="--search", fix="pip install syne-tune") from None
        logging.getLogger("syne_tune").setLevel(logging.ERROR)
        self._axes, self._tasks = _Axes(space, rows), len(rows[0].config.epochs)
        axes = {name: choice(list(range(len(values)))) for name, values in self._axes.words.items()}
        axes |= {name: randint(0, len(values) - 1) for name, values in self._axes.ranks.items()}
        how = {"metric": "score", "do_minimize": False, "time_attr": "tasks", "max_t": self._tasks}
        self._scheduler = BOHB(axes, random_seed=seed, grace_period=1, reduction_factor=2, **how)
        self._added = itertools.count()
        self._asked: dict[int, Any] = {}  # by number, Syne Tune's trial
        self._running: set[int] = set()
        self._scores: dict[int, list[float]] = {}  # after each task so far

    def ask(self) -> int | None:
        from syne_tune.backend.trial_status import Trial as Asked

        for _ in range(REPEATS):
            config = self._scheduler.suggest().config
            number = self._axes.number(config)
            if number in self._running:
                continue
            self._asked[number] = Asked(next(self._added), config, datetime.datetime.min)
            self._scheduler.on_trial_add(self._asked[number])
            if number not in self._scores:
                self._scores[number] = []
                self._running.add(number)
                return number
            self._answer(number)
        return None

    def _answer(self, number: int) -> None:
        """One that was tried before has its scores at once."""
        for finished_tasks, score in enumerate(self._scores[number], 1):
            if finished_tasks == self._tasks:
                return self._complete(number, score)
            if not self._continues(number, finished_tasks, score):
                break
        return self._scheduler.on_trial_remove(self._asked[number])  # type: ignore[no-any-return]

    def _continues(self, number: int, finished_tasks: int, score: float) -> bool:
        result = {"score": score, "tasks": finished_tasks}
        return bool(self._scheduler.on_trial_result(self._asked[number], result) == "CONTINUE")

    def _complete(self, number: int, score: float) -> None:
        self._scheduler.on_trial_complete(self._asked[number], {"score": score, "tasks": self._tasks})

    def goes_on(self, trial: int, finished_tasks: int, score: float) -> bool:
        self._scores[trial].append(score)
        return self._continues(trial, finished_tasks, score)

    def ended(self, trial: int, score: float | None) -> None:
        self._running.remove(trial)
        if score is None:
            self._scheduler.on_trial_remove(self._asked[trial])
        else:
            self._scores[trial].append(score)
            self._complete(trial, score)


def smac(space: Space, rows: list[Trial], budget: float, seed: int, *, hyperband: bool) -> SmacPeer:
    whole = sum(sum(trial.config.epochs) for trial in rows) / len(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SmacPeer(space, rows, seed, max(1, round(budget / whole)), hyperband=hyperband)


def syne(space: Space, rows: list[Trial], budget: float, seed: int) -> SynePeer:
    del budget
    return SynePeer(space, rows, seed)
