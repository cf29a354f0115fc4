"""A storage of Optuna that shows given trials as they are; those that a sampler is asked for follow them."""

from __future__ import annotations

import copy
from collections.abc import Container, Mapping, Sequence
from typing import Any

import optuna
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState


class _Shown(InMemoryStorage):
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


def study_of(past: Sequence[FrozenTrial], before: int, notes: Mapping[str, Any] | None = None) -> optuna.Study:
    """A study that shows these trials, of so many that there were, and the notes that a sampler made on it."""
    storage = _Shown(past, before)
    study = optuna.create_study(storage=storage, direction=StudyDirection.MAXIMIZE)
    for name, note in (notes or {}).items():
        storage.set_study_system_attr(study._study_id, name, note)
    return study
