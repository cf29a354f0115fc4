"""The package's public names: functions that are listed, that hide no module, and that do what the commands do."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest
from spaces import finish, space_of

import co2l
from co2l.errors import Co2lError
from co2l.search.record.study import StudyRecord
from co2l.urls import sqlite_url

FUNCTIONS = [name for name in co2l.__all__ if not name.startswith("_")]
SHORT = {"E_0": 1, "E_t": 1, "probe_epochs": 1, "matrix_probe": "none"}


def test_only_public_names_are_listed() -> None:
    import co2l.learning.methods
    import co2l.tune

    assert sorted(dir(co2l)) == sorted(co2l.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_typed_and_hides_no_module(name: str) -> None:
    assert importlib.util.find_spec(f"co2l.{name}") is None
    signature = inspect.signature(getattr(co2l, name))
    assert signature.return_annotation is not signature.empty
    assert all(each.annotation is not each.empty for each in signature.parameters.values())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'run_serch'"):
        co2l.run_serch  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    space = space_of({"eta": [0.01, 0.02], "buffer_size": [50, 100]}, seeds=[0, 1])
    record = StudyRecord.open(sqlite_url(root / "study.db"), "mine", space)
    for i, trial in enumerate(space.trials()):
        finish(record, trial, 80.0 + i)
    return root


def test_studies_by_name_and_position(root: Path) -> None:
    found = co2l.studies(root)
    assert [study.name for study in found] == ["mine"]
    assert found["mine"].name == found[0].name == "mine"
    assert repr(found) == "<search mine: co2l on seq_digits, grid, 8/8 done, best 86.50 (eta=0.02 buffer_size=100)>"
    assert "<td>8/8 done</td>" in found._repr_html_()
    with pytest.raises(Co2lError, match="did you mean 'mine'"):
        found["mien"]


def test_one_trial_by_its_values_or_key(root: Path) -> None:
    study = co2l.load_study(root, "mine")
    trial = study.trial(eta=0.02, buffer_size=50, seed=1)
    assert (trial.score, trial.accuracies) == (85.0, {"class_il": 84.0, "task_il": 86.0})
    assert study.trial(trial.key[:12]) == trial
    assert trial.settings["kappa"] == 0.1
    assert (
        repr(trial) == f"<trial {trial.key[:8]}: eta=0.02 buffer_size=50 seed=1, done, Class-IL 84.00, Task-IL 86.00>"
    )
    assert "<th>kappa</th><td>0.1</td>" in trial._repr_html_()
    for values, said in (
        ({"eta": 0.02}, "4 trials are eta=0.02; give more of them"),
        ({"eta": 0.03}, "0 trials are eta=0.03"),
        ({"etta": 0.02}, "unknown axis 'etta'; did you mean 'eta'"),
    ):
        with pytest.raises(Co2lError, match=said):
            study.trial(**values)


@pytest.mark.parametrize("name", ["history", "parallel", "slice", "contour", "rank"])
def test_interactive_figures_show_the_trials(root: Path, name: str) -> None:
    pytest.importorskip("plotly")
    figure = co2l.load_study(root, "mine").interactive(name)
    assert figure.to_plotly_json()["data"]
    with pytest.raises(Co2lError, match="did you mean 'history'"):
        co2l.load_study(root, "mine").interactive("histori")


def test_training_returns_what_it_measured(tmp_path: Path) -> None:
    done = co2l.run_training("seq_digits", settings=SHORT, root=tmp_path, quiet=True)
    assert set(done.accuracies) == {"class_il", "task_il"}
    assert Path(done.path).is_file()
    assert co2l.run_training("seq_digits", settings=SHORT, root=tmp_path, quiet=True).result == done.result
    assert repr(done).startswith("<run of co2l on seq_digits, seed 0: Class-IL ")
    with pytest.raises(Co2lError, match="unknown setting 'kapa'; did you mean 'kappa'"):
        co2l.run_training(settings={"kapa": 1}, root=tmp_path)


@pytest.mark.e2e
@pytest.mark.usefixtures("shared_ray")
def test_a_search_and_an_evaluation_return_their_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"benchmark": "seq_digits", "settings": {**SHORT, "batch_size": 64}, "axes": {"eta": [0.01, 0.02]}}
    with pytest.raises(Co2lError, match="give study='NAME'"):
        co2l.run_search(space, root=tmp_path)
    study = co2l.run_search(space, study="mine", settings={"buffer_size": 50}, root=tmp_path, quiet=True)
    assert (study.name, study.summary().progress) == ("mine", "2/2 done")
    assert study.best()[0]["settings"]["buffer_size"] == 50
    tested = co2l.run_evaluation("mine", seeds=1, root=tmp_path, quiet=True)
    assert (tested.name, tested.kind, tested.summary().progress) == ("mine.test", "evaluation", "1/1 done")
    assert capsys.readouterr().out == ""
