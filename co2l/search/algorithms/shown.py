"""A storage of Optuna that shows given trials as they are; those that a sampler is asked for follow them."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping, Sequence
from typing import Any

import optuna
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState


class _Storage(InMemoryStorage):
    def __init__(self, past: Sequence[FrozenTrial], before: int) -> None:
        super().__init__()
        self._past, self._before = past, before
        self._max_trial_id = before - 1

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        self.get_trial(trial_id).number += self._before
        return trial_id

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        every = [*self._past, *super().get_all_trials(study_id, deepcopy=False)]
        found = every if states is None else [trial for trial in every if trial.state in states]
        return copy.deepcopy(found) if deepcopy else found


class Shown:
    """A study that shows these trials, of so many that there were, and the notes that a sampler made on it."""

    def __init__(self, past: Sequence[FrozenTrial], before: int, notes: Mapping[str, Any] | None = None) -> None:
        self._storage = _Storage(past, before)
        self.study = optuna.create_study(storage=self._storage, direction=StudyDirection.MAXIMIZE)
        self._id = self._storage.get_study_id_from_name(self.study.study_name)
        for name, note in (notes or {}).items():
            self._storage.set_study_system_attr(self._id, name, note)

    @property
    def notes(self) -> dict[str, Any]:
        """Those that are there now."""
        return self._storage.get_study_system_attrs(self._id)

    @property
    def newest(self) -> FrozenTrial:
        """The trial that was asked for last."""
        return self._storage.get_all_trials(self._id, deepcopy=False)[-1]
