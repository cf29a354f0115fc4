"""The record of a search: which trials were tried and how they ended, as an Optuna study in its storage.

Every trial is one Optuna trial, through all its attempts. What was read or written once is kept in memory, so that no
operation looks at more than its own trial. Only the coordinator writes to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, create_trial

from co2l.errors import Co2lError
from co2l.learning.config import VERSION
from co2l.search.record.earlier import Earlier
from co2l.search.record.entries import Cost, Entry, Status, total_cost
from co2l.search.record.storage import EARLIER, OPTUNA_STATE, PAUSED, WAIT, connect, entry_of, reaching, shown, widened
from co2l.search.space.growth import difference, digest_of, grown
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

MAX_PROCESSES_LOST = 5  # in a row and without a new epoch, until the trial itself is to blame
OBJECTIVE_NAMES = "study:metric_names"  # where Optuna's tools look for the name of what is maximised
LOST = "its process or machine was lost"


class StudyRecord:
    """Made by `open`. The same storage and name continue a search; nothing that ended is tried again.

    Axes may have got more values since, those of new plug-ins too, and the space more seeds.
    """

    def __init__(self, storage: BaseStorage, study: int, name: str, space: Space, url: str) -> None:
        self.name, self.space = name, space
        self._storage, self._study, self._url = storage, study, url
        trials = storage.get_all_trials(study, deepcopy=False)
        self._distributions = {name: widened(storage, study, trials, name, axis) for name, axis in space.axes.items()}
        self._numbers: dict[str, int] = {}  # of Optuna's trials, by the key of ours
        self._ids: dict[str, int] = {}  # the same in the storage, once they were needed
        self.entries: dict[str, Entry] = {}  # by the key of the trial, in the order of their first begin
        for frozen in trials:
            self._read(frozen)
        # the digest of the space that the study was started with: axes and seeds may have grown since
        self.identity: str = storage.get_study_user_attrs(study).get("identity") or space.digest

    @classmethod
    def open(
        cls,
        storage: str | None,
        name: str,
        space: Space,
        *,
        fresh: bool = False,
        earlier: Earlier | None = None,
        wait: float = WAIT,
    ) -> StudyRecord:
        """The record `name` in `storage` (an SQLAlchemy URL, or None for one that is gone with the process)."""
        url = shown(storage)
        with reaching(url):
            opened = connect(storage, wait)
            found = {each.study_name: each for each in opened.get_all_studies()}
            if fresh and name in found:
                del found[name]
                opened.delete_study(opened.get_study_id_from_name(name))
            before = found[name].user_attrs.get("space") if name in found else None
            now = {"version": VERSION, **space.canonical()}
            if before is not None and (changes := difference(grown(before, now, space), now)):
                what = f"study '{name}' was started with another space ({', '.join(changes)})"
                flag = "--study" if space.split.kind == "search" else "--name"
                fix = f"use {flag} NEW, which reuses stored stages, or discard the old record with --fresh"
                raise Co2lError(what, where=space.source, fix=fix)
            maximise = [optuna.study.StudyDirection.MAXIMIZE]
            if name not in found:
                opened.create_new_study(maximise, name)
            study = opened.get_study_id_from_name(name)
            if before is not None:
                _check_seeds(space, set(before.get("seeds") or ()), opened.get_all_trials(study, deepcopy=False), name)
            if before is None:
                opened.set_study_user_attr(study, "space", now)
                measured = f"{space.split.evaluation_split}/{space.objective.partition('/')[2]}"
                opened.set_study_system_attr(study, OBJECTIVE_NAMES, [measured])
            elif before != now:
                if "identity" not in found[name].user_attrs:
                    first = {key: value for key, value in before.items() if key != "version"}
                    opened.set_study_user_attr(study, "identity", digest_of(first))
                opened.set_study_user_attr(study, "space", now)
            _note_earlier(opened, study, name, earlier)
            opened.set_study_user_attr(study, "limits", {"samples": space.samples, "retries": space.retries})
            return cls(opened, study, name, space, url)

    @property
    def earlier(self) -> Earlier | None:
        """What the study took from an earlier one when it was begun."""
        noted = self._storage.get_study_user_attrs(self._study).get(EARLIER)
        return Earlier.noted(noted) if noted else None

    def _read(self, frozen: FrozenTrial) -> None:
        entry = entry_of(frozen)
        if entry is None:
            raise Co2lError(f"study '{self.name}' is not a search of ours", where=self._url, fix="use --study NEW")
        self._numbers[entry.key], self.entries[entry.key] = frozen.number, entry
        if entry.status == "running":  # its driver died: nothing runs it now
            self._storage.set_trial_state_values(self._id(entry), OPTUNA_STATE["pending"])
            entry.status = "pending"

    def _id(self, entry: Entry) -> int:
        if entry.key not in self._ids:
            number = self._numbers[entry.key]
            self._ids[entry.key] = self._storage.get_trial_id_from_study_id_trial_number(self._study, number)
        return self._ids[entry.key]

    def begin(self, trial: Trial) -> None:
        """The trial runs from now on."""
        entry = self.entries.get(trial.key)
        with reaching(self._url):
            if entry is not None and entry.status in ("pending", "paused"):
                if entry.status == "paused":  # if this driver dies it is pending
                    self._storage.set_trial_user_attr(self._id(entry), "so_far", entry.so_far())
                self._storage.set_trial_state_values(self._id(entry), OPTUNA_STATE["running"])
                entry.status = "running"
                return
            if entry is not None and self.status(trial) != "pending":
                raise ValueError(f"trial {trial.key} is {entry.status} and cannot begin")
            begun = Entry(trial.key, dict(trial.values), trial.seed, "running")
            if entry is not None:  # it failed for good, and more retries were allowed since
                begun.continued(entry.so_far())
            values = {"trial": trial.key, "seed": trial.seed, "values": begun.values, "so_far": begun.so_far()}
            template = create_trial(
                state=OPTUNA_STATE["running"],
                params=dict(trial.values),
                distributions={name: self._distributions[name] for name in trial.values},
                user_attrs=values,
            )
            self._ids[trial.key] = self._storage.create_new_trial(self._study, template)
        self.entries[trial.key] = begun

    def rung(self, trial: Trial, finished_tasks: int, score: float) -> None:
        """The trial's score after so many tasks, for early stopping."""
        entry = self.entries[trial.key]
        if entry.rungs.get(finished_tasks) == score:
            return
        with reaching(self._url):
            self._storage.set_trial_intermediate_value(self._id(entry), finished_tasks, score)
        entry.rungs[finished_tasks] = score

    def finish(self, trial: Trial, result: Mapping[str, Any], cost: Cost) -> None:
        """The trial has its result, as `Result.as_dict()`."""
        name = self.space.objective.removeprefix("val/")
        score = float(result["score"] if name == "score" else result["average"][name])
        if not math.isfinite(score):
            raise ValueError(f"trial {trial.key} has the score {score}")
        entry = self._spend(trial, cost)
        entry.score, entry.result = score, dict(result)
        self._end(entry, "done", [score])

    def pause(self, trial: Trial, cost: Cost) -> None:
        """The trial made room for another after a task, and may continue later."""
        self._end(self._spend(trial, cost), "paused")

    def prune(self, trial: Trial, cost: Cost) -> None:
        """The trial was stopped at a rung."""
        self._end(self._spend(trial, cost), "pruned")

    def fail(self, trial: Trial, reason: str, cost: Cost, *, final: bool = False) -> bool:
        """One attempt failed, and another would too if this is `final`. Whether the trial may be tried again."""
        entry = self._spend(trial, cost)
        entry.failures, entry.reason = self.space.retries + 1 if final else entry.failures + 1, reason
        again = entry.failures <= self.space.retries
        self._end(entry, "pending" if again else "failed")
        return again

    def lose(self, trial: Trial, epoch: int, cost: Cost, reason: str = LOST) -> bool:
        """The trial's process or machine was lost after this epoch. Whether the trial may be tried again.

        That is no failure of the trial, as machines come and go. But one that ends its process each time at the same
        point, mostly for lack of memory, would do so forever.
        """
        entry = self._spend(trial, cost)
        entry.processes_lost = 0 if epoch > entry.furthest_epoch else entry.processes_lost + 1
        entry.furthest_epoch, entry.reason = max(entry.furthest_epoch, epoch), reason
        again = entry.processes_lost < MAX_PROCESSES_LOST
        if not again:
            entry.reason += f" {MAX_PROCESSES_LOST} times in a row without a new epoch (too little memory?)"
            entry.failures, entry.processes_lost = self.space.retries + 1, 0  # out of retries, until there are more
        self._end(entry, "pending" if again else "failed")
        return again

    def interrupt(self, trial: Trial, cost: Cost) -> None:
        """The search was stopped, and the trial with it: it is pending again, and this was no failure."""
        self._end(self._spend(trial, cost), "pending")

    def note_cost(self, trial: Trial, cost: Cost) -> None:
        """What the running attempt has cost so far: it is known even if this driver is killed."""
        entry = self.entries[trial.key]
        with reaching(self._url):
            noted = {**entry.so_far(), "cost": asdict(entry.cost + cost)}
            self._storage.set_trial_user_attr(self._id(entry), "so_far", noted)

    def _spend(self, trial: Trial, cost: Cost) -> Entry:
        entry = self.entries[trial.key]
        if entry.status != "running":
            raise ValueError(f"trial {trial.key} is {entry.status}, not running")
        entry.cost += cost
        return entry

    def _end(self, entry: Entry, status: Status, values: list[float] | None = None) -> None:
        with reaching(self._url):  # the state last: only then does the attempt count as ended
            note = {PAUSED: True} if status == "paused" else {}
            self._storage.set_trial_user_attr(self._id(entry), "so_far", {**entry.so_far(), **note})
            self._storage.set_trial_state_values(self._id(entry), OPTUNA_STATE[status], values)
        entry.status = status

    def status(self, trial: Trial) -> Status:
        """The trial's state; one that failed is pending again if more retries were allowed since."""
        entry = self.entries.get(trial.key)
        if entry is None or (entry.status == "failed" and entry.failures <= self.space.retries):
            return "pending"
        return entry.status

    def finished(self) -> dict[str, Entry]:
        """The trials that have a result, by their key."""
        return {key: entry for key, entry in self.entries.items() if entry.status == "done"}

    def cost(self) -> Cost:
        """What all attempts have cost."""
        return total_cost(self.entries.values())


def _note_earlier(storage: BaseStorage, study: int, name: str, earlier: Earlier | None) -> None:
    """What a study takes from an earlier one, once: later it would not be what its trials followed."""
    if earlier is None or EARLIER in storage.get_study_user_attrs(study):
        return
    if storage.get_n_trials(study):
        fix = "leave out --from-study, or use --study NEW"
        raise Co2lError(f"study '{name}' was begun without an earlier one", where="--from-study", fix=fix)
    storage.set_study_user_attr(study, EARLIER, earlier.as_dict())


def _check_seeds(space: Space, before: set[int], trials: Sequence[FrozenTrial], name: str) -> None:
    """A race has drawn other validation examples for its seeds: none of them may become one of the space's."""
    new = set(space.seeds) - before if before else set()
    entries = (entry_of(each) for each in trials) if new else ()
    if taken := sorted({entry.seed for entry in entries if entry is not None and entry.seed in new}):
        what = f"the race of study '{name}' has tried seed {taken[0]} with a validation split of its own"
        fix = f"list {max(*new, *taken) + 1} instead, or use --study NEW"
        raise Co2lError(what, where=f"{space.source}: seeds", fix=fix)
