"""The figures of a search, as they are drawn from its entries."""

from __future__ import annotations

from spaces import finish, space_of
from test_tracking import PNG

from co2l.search.record.importance import importance
from co2l.search.record.study import StudyRecord
from co2l.search.tracking.figures import png
from co2l.search.tracking.search_figures import search_figures

AXES = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "kappa": [0.1, 0.2], "buffer_size": [50, "unlimited"]}
RATES = (0.001, 0.01, 0.1)


def test_what_was_selected_stands_out_and_every_axis_has_its_scale() -> None:
    space = space_of(AXES, selection={"per": ["buffer_size"]}, algorithm="random", samples=12)
    record = StudyRecord.open(None, "s", space)
    assert search_figures(space, [], {}, []) == {}
    trials = [
        space.trial({"eta": eta, "kappa": kappa, "buffer_size": size}, 0)
        for size in AXES["buffer_size"]
        for kappa in AXES["kappa"]
        for eta in RATES
    ]
    for i, trial in enumerate(trials):
        finish(record, trial, 50.0 + i)
    entries = record.entries.values()
    figures = search_figures(space, entries, importance(space, entries), [trials[-1].key])
    assert list(figures) == ["importance", "history", "parallel_coordinate"]
    names = [label.get_text() for label in figures["importance"].axes[0].get_yticklabels()]
    assert sorted(names) == ["eta", "kappa"]
    assert figures["importance"].axes[0].get_xlabel().endswith("(fANOVA, for each buffer_size)")
    (panel,) = figures["parallel_coordinate"].axes
    assert [label.get_text() for label in panel.get_xticklabels()] == [*AXES, "val/score (%)"]
    lines = [line for line in panel.lines if len(line.get_xdata()) == len(AXES) + 1]
    assert len(lines) == len(trials)
    assert lines[-1].get_linewidth() > max(line.get_linewidth() for line in lines[:-1])
    middle = [round(float(line.get_ydata()[0]), 1) for line in lines]
    assert sorted(set(middle)) == [0.0, 0.5, 1.0]  # 0.01 is halfway between 0.001 and 0.1
    assert {text.get_text() for text in panel.texts} == {
        *("★ 61.00", "50.00", "61.00", "0.001", "0.1", "0.2", "50", "unlimited")
    }
    assert all(png(figure).startswith(PNG) for figure in figures.values())


def test_a_stopped_trial_says_whose_score_it_shows() -> None:
    space = space_of(early_stop={"rungs": [1]})
    record = StudyRecord.open(None, "s", space)
    first, second, third, *_ = space.trials()
    finish(record, first, 80.0)
    finish(record, second, 70.0)
    record.begin(third)
    record.rung(third, 1, 99.0)
    record.prune(third, record.cost())
    (panel,) = search_figures(space, record.entries.values(), {}, [])["history"].axes
    labels = panel.get_legend_handles_labels()[1]
    assert labels == ["finished", "best so far", "stopped early: by the matrix probe, at its rung"]
    (best,) = [line for line in panel.lines if line.get_label() == "best so far"]
    assert list(best.get_ydata()) == [80.0, 80.0], "the other probe's 99 is no best score"
