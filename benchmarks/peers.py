"""How other packages search the same recordings: Ray Tune, Optuna, and if they are installed SMAC3 and Syne Tune.

Each drives its own scheduler or pruner after every task, as its users would with tasks as the resource, on the same
virtual clock, with the same workers, stored stages and budget as ours. Whoever has the budget's last epochs begins no
stage that does not fit.
"""

from __future__ import annotations

import functools
import heapq
import importlib.util
import itertools
import random
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import optuna
import other_peers

from co2l.search.space.space import Configuration, Space
from co2l.search.space.trial import Trial

Found = tuple[Configuration | None, int]


class Driver(Protocol):
    """A peer's searcher and scheduler."""

    def ask(self) -> int | None:
        """The number of a trial to begin; None for no more."""

    def goes_on(self, trial: int, finished_tasks: int, score: float) -> bool:
        """Whether a running trial continues."""

    def ended(self, trial: int, score: float | None) -> None:
        """It has its final score, or was stopped."""


def searching(grid: Space, algorithm: str, *, early_stop: bool = False) -> Space:
    """The grid as a space that an algorithm of ours searches, as long as the budget lasts."""
    if algorithm in ("grid", "thaw", "auto"):
        return grid.replace(algorithm=algorithm)
    return grid.replace(algorithm=algorithm, samples=grid.size, early_stop=early_stop)


def drive(
    space: Space, scores: list[list[float]], workers: int, budget: float, peer: Driver, rows: list[Trial]
) -> Found:
    """The search of a peer: the configuration with the best final score, and the epochs that were trained."""
    tasks = len(rows[0].config.epochs)
    stored: set[Hashable] = set()
    events: list[tuple[float, int, int, int]] = []  # end of a task: when, count, trial, task
    count, now, spent, finals = itertools.count(), 0.0, 0, dict[int, float]()

    def train(number: int, task: int) -> bool:
        nonlocal spent
        trial = rows[number]
        stage = trial.segment(task), task
        epochs = 0 if stage in stored else trial.config.epochs[task]
        if spent + epochs > budget:
            return False
        stored.add(stage)  # two that need it at once share it: no peer is charged twice
        spent += epochs
        heapq.heappush(events, (now + epochs, next(count), number, task))
        return True

    asking = True
    while asking or events:
        while asking and len(events) < workers:
            number = peer.ask()
            asking = number is not None and train(number, 0)
        if not events:
            break
        now, _, number, task = heapq.heappop(events)
        score = scores[number][task]
        if task == tasks - 1:
            finals[number] = score
            peer.ended(number, score)
        elif not peer.goes_on(number, task + 1, score) or not train(number, task + 1):
            peer.ended(number, None)
    if not finals:
        return None, spent
    best = max(finals, key=lambda number: (finals[number], -number))
    return space.configuration(rows[best].values), spent


class OptunaPeer:
    """Optuna's ask and tell, with categorical axes for words and ranks for numbers, as ours sees them."""

    def __init__(self, space: Space, rows: list[Trial], sampler: Any, pruner: Any) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        self._lists = {name: sorted(values, key=str if isinstance(values[0], str) else float)
                       for name, values in zip(space.axes, space.lists(space.axes), strict=True)}  # fmt: skip
        self._numbers = {tuple(trial.values[name] for name in self._lists): i for i, trial in enumerate(rows)}
        self._asked: dict[int, optuna.Trial] = {}
        self._finals: dict[int, float | None] = {}

    def ask(self) -> int | None:
        for _ in range(50):  # a repeated one is answered at once, as the record would
            trial = self._study.ask()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = tuple(v[trial.suggest_int(name, 0, len(v) - 1)] for name, v in self._lists.items())
            number = self._numbers[values]
            if number not in self._asked:
                self._asked[number] = trial
                return number
            final = self._finals.get(number)
            self._study.tell(trial, final, state=None if final is not None else optuna.trial.TrialState.FAIL)
        return None

    def goes_on(self, trial: int, finished_tasks: int, score: float) -> bool:
        self._asked[trial].report(score, finished_tasks)
        return not self._asked[trial].should_prune()

    def ended(self, trial: int, score: float | None) -> None:
        self._finals[trial] = score
        state = None if score is not None else optuna.trial.TrialState.PRUNED
        self._study.tell(self._asked[trial], score, state=state)


class RayAsha:
    """Ray Tune's ASHA over random trials; its own scheduler decides after each task."""

    def __init__(self, rows: list[Trial], tasks: int, seed: int) -> None:
        from ray.tune.schedulers.async_hyperband import _Bracket

        # the part of AsyncHyperBandScheduler that decides; the rest talks to Tune
        self._bracket = _Bracket(min_t=1, max_t=tasks, reduction_factor=2, s=0)
        self._order = iter(random.Random(seed).sample(range(len(rows)), len(rows)))

    def ask(self) -> int | None:
        return next(self._order, None)

    def goes_on(self, trial: int, finished_tasks: int, score: float) -> bool:
        return bool(self._bracket.on_result(_Named(str(trial)), finished_tasks, score) != "STOP")

    def ended(self, trial: int, score: float | None) -> None: ...


class _Named:
    """What ASHA reads of Tune's trial."""

    def __init__(self, trial_id: str) -> None:
        self.trial_id = trial_id


def _optuna(
    sampler: Callable[[int], Any],
    pruner: Callable[[int], Any],
    space: Space,
    scores: list[list[float]],
    workers: int,
    budget: float,
    seed: int,
) -> Found:
    rows = list(space.trials())
    tasks = len(rows[0].config.epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls some of its samplers experimental
        peer = OptunaPeer(space, rows, sampler(seed), pruner(tasks))
    return drive(space, scores, workers, budget, peer, rows)


def _asha(space: Space, scores: list[list[float]], workers: int, budget: float, seed: int) -> Found:
    rows = list(space.trials())
    tasks = len(rows[0].config.epochs)
    return drive(space, scores, workers, budget, RayAsha(rows, tasks, seed), rows)


def _other(
    make: Callable[..., Driver],
    space: Space,
    scores: list[list[float]],
    workers: int,
    budget: float,
    seed: int,
) -> Found:
    rows = list(space.trials())
    return drive(space, scores, workers, budget, make(space, rows, budget, seed), rows)


def _tpe(seed: int) -> Any:
    return optuna.samplers.TPESampler(seed=seed)


def _gp(seed: int) -> Any:
    return optuna.samplers.GPSampler(seed=seed)


def _halving(tasks: int) -> Any:
    del tasks
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)


def _hyperband(tasks: int) -> Any:
    return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=tasks, reduction_factor=2)


def _none(tasks: int) -> Any:
    del tasks
    return optuna.pruners.NopPruner()


PEERS: dict[str, Callable[[Space, list[list[float]], int, float, int], Found]] = {
    "ray-asha": _asha,
    "optuna-tpe": functools.partial(_optuna, _tpe, _none),
    "optuna-tpe+halving": functools.partial(_optuna, _tpe, _halving),
    "optuna-tpe+hyperband": functools.partial(_optuna, _tpe, _hyperband),
    "optuna-gp": functools.partial(_optuna, _gp, _none),
    "smac-hyperband": functools.partial(_other, functools.partial(other_peers.smac, hyperband=True)),
    "smac-forest": functools.partial(_other, functools.partial(other_peers.smac, hyperband=False)),
    "syne-bohb": functools.partial(_other, other_peers.syne),
}
NEEDS = {"smac-hyperband": "smac", "smac-forest": "smac", "syne-bohb": "syne_tune"}


def installed() -> list[str]:
    """Those whose packages are there."""
    return [name for name in PEERS if name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None]
