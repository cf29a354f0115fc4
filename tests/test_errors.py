"""The user's error is one line that says what, where and what to do, in every process."""

from __future__ import annotations

import pickle

from co2l.errors import Co2lError, unknown


def test_one_line() -> None:
    assert str(Co2lError("tau is 0", where="space.yaml", fix="give more")) == "space.yaml: tau is 0; give more"
    assert str(Co2lError("tau is 0")) == "tau is 0"


def test_crosses_processes() -> None:
    error = Co2lError("tau is 0", where="space.yaml", fix="give more")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.where) == (str(error), "space.yaml")


def test_unknown_names_the_closest_or_all() -> None:
    assert str(unknown("method", "colt", ["co2l", "er"])) == "unknown method 'colt'; did you mean 'co2l'?"
    assert str(unknown("method", "xyz", ["co2l", "er"])) == "unknown method 'xyz'; valid are: co2l, er"
