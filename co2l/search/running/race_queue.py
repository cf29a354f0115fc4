"""Which trial of a search with a race comes next: first those of the search, then those of its race, heat by heat.

What is raced depends on the space, the record and the race's epochs alone: a search that was killed continues as if it
had not been.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from co2l.search.algorithms.drawing import InTurns
from co2l.search.algorithms.early_stopping import Decision, EarlyStopper
from co2l.search.record.entries import Entry
from co2l.search.running.ledger import Ledger
from co2l.search.running.queue import FINISHED, Recorded, Signal, TrialQueue
from co2l.search.running.thaw_queue import ThawQueue
from co2l.search.selection.race import FEWEST, WORTH_RACING, Runner, affordable, staying
from co2l.search.selection.rule import group, outcomes, position, runner
from co2l.search.space.document import Value
from co2l.search.space.plan import plan
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial


class Heats(InTurns):
    """The trials of a race, a heat in each turn."""

    def __init__(self, space: Space, entries: Mapping[str, Entry], epochs: float, *, reuse: bool = True) -> None:
        """`epochs` are all that the race may train, in equal parts for the values that the selection chooses per."""
        super().__init__(entries)
        self._space, self._reuse = space, reuse
        groups = list(itertools.product(*space.lists(space.selection.per)))
        self._epochs = dict.fromkeys(groups, epochs / len(groups))  # of the groups that still race
        self._given = 0  # heats

    @property
    def left(self) -> int:
        """How many configurations the heats have, at least, that are still to come."""
        return FEWEST * len(self._epochs) * (len(self._space.further_seeds) - self._given)

    def _following(self) -> list[Trial]:
        if self._given == len(self._space.further_seeds):
            return []
        runners = self._runners()
        heats = [self._heat(name, runners.get(name, [])) for name in list(self._epochs)]
        self._given += 1
        return [trial for heat in heats for trial in heat]

    def _runners(self) -> dict[tuple[Value, ...], list[Runner]]:
        """Per group those that ran all heats so far."""
        tried = {*self._space.seeds, *self._space.further_seeds[: self._given]}
        found: dict[tuple[Value, ...], list[Runner]] = {}
        for outcome in outcomes(self._space, self._entries.values()):
            each = runner(self._space, outcome)
            if outcome.status == "done" and each.scores.keys() >= tried:
                scores = {seed: each.scores[seed] for seed in each.scores if seed in tried}
                name = group(self._space, each.configuration)
                found.setdefault(name, []).append(Runner(each.configuration, scores))
        return found

    def _heat(self, name: tuple[Value, ...], runners: list[Runner]) -> list[Trial]:
        """The trials of a group's next heat; with too few of them or too few epochs its race is over."""
        runners = sorted(runners, key=lambda each: position(self._space, each.configuration))
        listed, costs, trials = staying(runners), [0], list[list[Trial]]()
        seed, left = self._space.further_seeds[self._given], self._epochs[name]
        stages = set[object]()
        for each in listed:
            if costs[-1] > left:
                break
            mine = list(self._space.trials_of(dict(each.configuration), [seed]))
            made = {self._stage(trial, t): epochs for trial in mine for t, epochs in enumerate(trial.config.epochs)}
            costs.append(costs[-1] + sum(epochs for stage, epochs in made.items() if stage not in stages))
            stages.update(made)
            trials.append(mine)
        going = affordable(costs, len(self._space.further_seeds) - self._given, left)
        if not going:
            del self._epochs[name]
            return []
        self._epochs[name] -= costs[going]
        return [trial for several in trials[:going] for trial in several]

    def _stage(self, trial: Trial, task: int) -> object:
        return trial.segment(task) if self._reuse else trial.key, task


def ledger_of(space: Space, *, reuse: bool) -> Ledger:
    """It holds back the share of a race, if the budget pays for a search worth racing."""
    if (race := space.selection.race) is None:
        return Ledger(reuse=reuse)
    planned = plan(space)
    least = min(WORTH_RACING * planned.epochs_naive / planned.trials, planned.epochs_planned)
    return Ledger(reuse=reuse, held_back=race.share, least=least)


def race_of(space: Space, record: Recorded, ledger: Ledger, *, reuse: bool) -> TrialQueue:
    """The queue of the race, which may train what is left now of the budget, or else a share of the plan's epochs."""
    assert space.selection.race is not None
    ledger.release(plan(space).race_epochs)
    heats = Heats(space, record.entries, ledger.left, reuse=reuse)
    return TrialQueue(space, record, ledger, reuse=reuse, source=heats)


class RaceQueue:
    """The queue of the search, and once that has nothing more to give the queue of the race.

    It has the interfaces of both and of an early stopper, as trials of a race run to their end.
    """

    def __init__(self, search: TrialQueue | ThawQueue, stopper: EarlyStopper, begin: Callable[[], TrialQueue]) -> None:
        self._search, self._stopper, self._begin = search, stopper, begin
        self._race: TrialQueue | None = None

    @property
    def _now(self) -> TrialQueue | ThawQueue:
        return self._search if self._race is None else self._race

    @property
    def issued(self) -> int:
        """How many trials `next` gave out that have not come back."""
        return self._now.issued

    @property
    def unfinished(self) -> int:
        """Trials that have not ended, and configurations that are still to be drawn or raced."""
        if self._race is None and not self._search.unfinished:
            self._race = self._begin()
        return self._now.unfinished

    def next(self) -> Trial | Signal:
        """A trial to start now."""
        if self._race is None:
            if (found := self._search.next()) is not FINISHED:
                return found
            self._race = self._begin()
        return self._race.next()

    def decide(self, trial: Trial, finished_tasks: int, score: float) -> Decision:
        return "continue" if self._race else self._stopper.decide(trial, finished_tasks, score)

    def stage_ready(self, trial: Trial, task: int) -> None:
        """The trial's stage of this task (0-based) is stored now."""
        self._now.stage_ready(trial, task)

    def finished(self, trial: Trial) -> None:
        """The trial is done."""
        self._now.finished(trial)

    def gave_up(self, trial: Trial) -> None:
        """The trial ended without a result, for good, or pauses."""
        self._now.gave_up(trial)

    def try_again(self, trial: Trial) -> None:
        """The trial is pending again."""
        self._now.try_again(trial)

    def take_back(self, trial: Trial) -> None:
        """The trial is pending again, unless it came back already."""
        self._now.take_back(trial)
