"""Importance against an analysis of variance by hand: the same evaluator, whoever asks."""

from __future__ import annotations

import hashlib
import itertools
import statistics
from dataclasses import replace

import pytest
from spaces import finish, space_of

from co2l.search.record.importance import described, importance
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space

AXES = {"eta": [0.01, 0.02, 0.05, 0.1], "kappa": [0.1, 0.2, 0.5, 1.0], "buffer_size": [50, 100]}
OF_ETA, OF_KAPPA, OF_BUFFER = dict(zip(AXES["eta"], (0, 6, 3, 9), strict=True)), {}, {50: 0.0, 100: 40.0}
OF_KAPPA = dict(zip(AXES["kappa"], (0, 1, 3, 2), strict=True))


def searched(space: Space) -> StudyRecord:
    record = StudyRecord.open(None, "s", space)
    for trial in space.trials():
        values = trial.values
        score = OF_ETA[values["eta"]] + OF_KAPPA[values["kappa"]] + OF_BUFFER[values["buffer_size"]]
        finish(record, trial, score)
    return record


@pytest.mark.parametrize("selection", [{"per": ["buffer_size"]}, {"mean_over": ["buffer_size"]}])
def test_what_is_selected_for_is_given_and_not_ranked(selection: dict[str, list[str]]) -> None:
    space = space_of(AXES, selection=selection)
    found = importance(space, searched(space).entries.values())
    assert list(found) == ["eta", "kappa"]
    variances = [statistics.pvariance(effect.values()) for effect in (OF_ETA, OF_KAPPA)]  # of additive effects
    assert found["eta"] == pytest.approx(variances[0] / sum(variances), abs=0.1)
    assert sum(found.values()) == pytest.approx(1.0)
    assert described(space) == "share of the variance of val/score (fANOVA, for each buffer_size)"


def test_without_it_every_axis_is_ranked() -> None:
    space = space_of(AXES)
    found = importance(space, searched(space).entries.values())
    assert list(found) == ["buffer_size", "eta", "kappa"]
    effects = [
        [eta, kappa, size] for eta, kappa, size in itertools.product(*map(dict.values, (OF_ETA, OF_KAPPA, OF_BUFFER)))
    ]
    variances = [statistics.pvariance(column) for column in zip(*effects, strict=True)]
    assert found["buffer_size"] == pytest.approx(variances[2] / sum(variances), abs=0.1)
    assert described(space) == "share of the variance of val/score (fANOVA)"


def test_too_few_results_have_no_importance() -> None:
    space = space_of(AXES, selection={"per": ["buffer_size"]})
    record = StudyRecord.open(None, "s", space)
    assert importance(space, record.entries.values()) == {}
    trials = list(space.trials())
    finish(record, trials[0], 1.0)
    finish(record, trials[1], 9.0)  # of the other buffer size
    assert importance(space, record.entries.values()) == {}
    finish(record, trials[2], 1.0)  # the same score
    assert importance(space, record.entries.values()) == {}
    finish(record, trials[4], 2.0)
    assert sum(importance(space, record.entries.values()).values()) == pytest.approx(1.0)


def test_seeds_of_one_point_say_nothing_about_its_axes() -> None:
    space = space_of({"eta": [0.01]}, seeds=[0, 1, 2])
    record = StudyRecord.open(None, "s", space)
    for i, trial in enumerate(space.trials()):
        finish(record, trial, float(i))
    assert importance(space, record.entries.values()) == {}


def test_neither_keys_nor_the_order_of_trials_matter() -> None:
    space = space_of(AXES)
    entries = list(searched(space).entries.values())
    expected = importance(space, entries)
    renamed = [replace(entry, key=hashlib.sha256(entry.key.encode()).hexdigest()) for entry in reversed(entries)]
    assert importance(space, renamed) == expected
