"""What a search and an evaluation print at their end: numbers, how sure they are, and the next commands."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from spaces import finish, space_of

from co2l.cli.arguments import add_engine_arguments, given_flags
from co2l.cli.outcome import print_evaluation, print_search
from co2l.search.record.importance import importance
from co2l.search.record.study import StudyRecord
from co2l.search.selection.rule import select
from co2l.search.selection.seeds import summarise_seeds
from co2l.search.service import EvaluationResult, Options, SearchResult, Summary
from co2l.search.space.evaluation import of_space
from co2l.search.tracking.pages import search_note

OPTIONS = Options(Path("/r"), "s", Path("/d"), "/r/store", "sqlite:////r/study.db", "http://here", model="s")
SUMMARY = Summary(StudyRecord.open(None, "none", space_of()).cost(), 0, {}, 0, "#/page")


@pytest.fixture(autouse=True)
def _found_by_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("co2l.cli.browse.python", lambda: "python")


def flags(*arguments: str) -> Any:
    parser = argparse.ArgumentParser()
    add_engine_arguments(parser)
    return given_flags(parser.parse_args(arguments))


def searched(left: int = 0, **keys: Any) -> tuple[Any, SearchResult]:
    space = space_of({"eta": [0.0123456789, 0.02], "buffer_size": [50, 100]}, **keys)
    record = StudyRecord.open(None, "s", space)
    for i, trial in enumerate(space.trials()):
        finish(record, trial, 80.0 + i)
    entries = record.entries.values()
    summary = Summary(record.cost(), left, {}, 0, "#/page")
    return space, SearchResult(select(space, entries), Path("selected/s.yaml"), summary, importance(space, entries))


def test_a_search_says_how_sure_it_is_and_what_to_type_next(capsys: pytest.CaptureFixture[str]) -> None:
    space, result = searched(selection={"per": ["buffer_size"]})
    given = flags("--root", "my runs", "--data", "/d", "--gpus-per-trial", "0.5")
    print_search(space, OPTIONS, result, flags=given, as_json=False)
    out = capsys.readouterr().out
    assert "selected on validation data: s by val/score (%, paper's probe)" in out
    (row,) = [line.split() for line in out.splitlines() if line.split()[1:2] == ["50"]]
    assert row == ["0.02", "50", "81.00", "83.00", "82.00", "+2.00", "1"]  # 82 against 80
    assert "how sure: best of 2 configurations, by the lead over the second; one seed" in out
    assert "what mattered: eta 1.00: share of the variance of val/score (fANOVA, for each buffer_size)" in out
    assert "next: python -m co2l.evaluate --study s --root 'my runs' --data /d --gpus-per-trial 0.5" in out
    assert "report: python -m co2l.report --study s --root 'my runs'\n" in out
    assert "0.0123456789" not in out


def test_several_seeds_have_a_spread(capsys: pytest.CaptureFixture[str]) -> None:
    space, result = searched(seeds=[0, 1])
    print_search(space, OPTIONS, result, flags=flags(), as_json=False)
    out = capsys.readouterr().out
    assert "86.50 ± 0.71   +2.00       2" in out  # 86 and 87 against 84 and 85; 1 / √2
    assert "± is the standard deviation over 2 seeds" in out


def test_a_race_has_an_interval_and_names_who_is_not_distinguishable(capsys: pytest.CaptureFixture[str]) -> None:
    space = space_of({"eta": [0.01, 0.02, 0.05]}, selection={"race": {"seeds": 3}})
    record = StudyRecord.open(None, "s", space)
    for eta, scores in ((0.01, [80, 82, 90]), (0.02, [79, 88, 88]), (0.05, [70])):
        for seed, score in enumerate(scores):
            finish(record, next(space.trials_of({"eta": eta}, [seed])), score)
    result = SearchResult(select(space, record.entries.values()), Path("selected/s.yaml"), SUMMARY, {})
    print_search(space, OPTIONS, result, flags=flags(), as_json=False)
    out = capsys.readouterr().out
    # 79, 88, 88: the mean is 85, the deviation 5.196; Student's 4.303 for two degrees of freedom
    assert "85.00 [72.09, 97.91]   +1.00       3" in out
    assert "[] is the 95% confidence interval of the mean over seeds" in out
    assert "raced 2 configurations; not distinguishable from the selected one: eta=0.01\n" in out
    print_search(space, OPTIONS, result, flags=flags(), as_json=True)
    (chosen,) = json.loads(capsys.readouterr().out)["selected"]
    assert chosen["margin"]["race"]["seeds"] == chosen["seeds"] == [0, 1, 2]
    assert chosen["margin"]["race"]["interval"] == pytest.approx([72.09, 97.91], abs=0.01)
    assert (chosen["margin"]["race"]["runners"], chosen["margin"]["race"]["alike"]) == (2, [{"eta": 0.01}])
    note = search_note(space, result.choice.selected, [])
    assert "| 85.00 (72.09 to 97.91 with 95%, 3 seeds) | +1.00 |" in note
    assert "Races: raced 2 configurations; not distinguishable from the selected one: eta=0.01." in note


def test_an_unfinished_search_leads_nowhere_yet(capsys: pytest.CaptureFixture[str]) -> None:
    space, result = searched(left=3)
    print_search(space, OPTIONS, result, flags=flags(), as_json=False)
    out = capsys.readouterr().out
    assert "3 trials are left; run the same command to continue" in out
    assert "next:" not in out


@pytest.mark.parametrize("as_json", [True, False])
def test_an_evaluation_names_its_model_and_the_report(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    evaluation = of_space(space_of({"eta": [0.01], "buffer_size": [50]}), 2)
    record = StudyRecord.open(None, "s.test", evaluation)
    for trial, score in zip(evaluation.trials(), (80.0, 83.0), strict=True):
        finish(record, trial, score)
    rows = summarise_seeds(evaluation, record.entries.values())
    result = EvaluationResult(rows, SUMMARY, ["selected", "buffer_50"])
    print_evaluation(evaluation, OPTIONS, result, report="s", flags=flags("--root", "r"), as_json=as_json)
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["model"] == {"name": "s", "aliases": ["selected", "buffer_50"]}
        return
    assert "co2l on seq_digits: test accuracy (%, paper's probe), mean ± std" in out
    assert "80.50 ± 2.12" in out  # Class-IL: 79 and 82; 3 / √2
    assert "registered model: s @selected @buffer_50" in out
    assert 'mlflow.pytorch.load_model("models:/s@selected")' in out
    assert "report: python -m co2l.report --study s --root r" in out


def test_no_command_that_is_suggested_has_a_password() -> None:
    storage, uri = "postgresql://me:geheim@h/db", "http://me:ge/heim@h:5000"
    for given in flags("--storage", storage, "--tracking-uri", uri, "--store", "ftp://me:geheim@h/x"):
        assert "heim" not in given
        assert "--storage 'postgresql://me:***@h/db'" in given
    file = "sqlite:////runs/a:b@c/study.db"
    assert f" --root a:b@c --storage {file}" in flags("--root", "a:b@c", "--storage", file).to_read
