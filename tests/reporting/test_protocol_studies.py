"""Results of protocols from real studies: searches without training, and evaluations whose accuracies are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sample_studies
from spaces import space_of

from co2l.errors import Co2lError
from co2l.reporting.protocol_studies import results
from co2l.reporting.protocols import ProtocolResult
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.running.simulation import Simulation
from co2l.search.selection.rule import select
from co2l.search.space.space import Space
from co2l.search.space.transfer import transferred
from co2l.search.space.trial import Trial

AXES = {"eta": [0.01, 0.02], "kappa": [0.1, 0.2], "class_order": [0, 1]}
BONUS = {("eta", 0.02): 2.0, ("kappa", 0.2): 1.0, ("class_order", 1): -4.0, ("kappa/3", 0.1): 5.0}


def bonus(values: Mapping[str, Any], tasks: int = 5) -> float:
    """What the values add to an accuracy after so many tasks; the first does not read κ."""
    read = {name: value for name, value in values.items() if tasks > 1 or not name.startswith("kappa")}
    return sum(
        BONUS.get((name, value)) or BONUS.get((name.partition("/")[0], value), 0.0) for name, value in read.items()
    )


def search(root: Path, name: str, **keys: Any) -> Space:
    """Accuracies after every task are 80 and what the values add to it."""
    space = space_of(keys.pop("axes", AXES), **keys)
    record = StudyRecord.open(sample_studies.url(root), name, space)
    Simulation(space, record, workers=1, accuracy=lambda trial, tasks: 80 + bonus(trial.values, tasks)).run()
    return space


def evaluate(root: Path, name: str, **settings: Any) -> None:
    """What the search selected, with every seed on orders 0 and 1; Class-IL is 60 and what the settings add to it."""
    study = StudyReader(sample_studies.url(root)).study(name)
    chosen = select(study.space, study.entries.values()).selected[0]
    given, benchmark = dict(chosen.settings), study.space.benchmark
    if transfer := study.space.selection.protocol.transfer:
        given, benchmark = transferred(study.space, chosen.values).as_dict()["settings"], transfer.to
    given.pop("class_order", None)
    axes = {"class_order": [0, 1]} if benchmark == "seq_digits" else {"eta": [given.pop("eta")]}
    space = sample_studies.evaluation(axes, 2, benchmark=benchmark, settings={**given, **settings})
    sample_studies.record(root, f"{name}.test", space, lambda values, seed: 60 + bonus(values) + seed)


def only(root: Path, name: str) -> ProtocolResult:
    (found,) = results(StudyReader(sample_studies.url(root)), [name], root="runs")
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Co²L under all protocols, tested; a search of ER that is not, and one for each of two buffer sizes."""
    folder = tmp_path_factory.mktemp("runs")
    for name, protocol in [
        *(("end", "end"), ("first", {"first_k": 1}), ("transfer", {"transfer": {"to": "r_digits"}})),
        ("greedy", "greedy"),
    ]:
        axes = {name: values for name, values in AXES.items() if protocol != "greedy" or name != "class_order"}
        search(folder, name, axes=axes, selection={"protocol": protocol})
        evaluate(folder, name)
    er = {"method": "er", "settings": {"epochs": 7}}
    search(folder, "er", **er, axes={"eta": [0.01, 0.02]})
    sizes = {"eta": [0.01, 0.02], "buffer_size": [50, 100]}
    search(folder, "sizes", axes=sizes, selection={"per": ["buffer_size"]})
    evaluate(folder, "sizes")
    return folder


def test_what_was_chosen_at_the_end(root: Path) -> None:
    found = only(root, "end")
    assert (found.benchmark, found.tested_on, found.method, found.protocol) == (
        "seq_digits",
        "seq_digits",
        "co2l",
        "end",
    )
    # η 0.02 and κ 0.2 are best: 60 + 2 + 1, the seed, and 4 less on order 1; Task-IL is half way to 100
    by_run = {(0, 0): 63.0, (1, 0): 64.0, (0, 1): 59.0, (1, 1): 60.0}
    assert found.by_run("class_il") == by_run
    assert found.by_run() == {run: (value + (value + 100) / 2) / 2 for run, value in by_run.items()}
    # first stages: η × order, 20 epochs each; later ones: κ as well, 4 tasks of 10 epochs
    assert found.choosing.epochs == 4 * 20 + 8 * 40
    assert found.training.epochs == 20 + 4 * 10
    assert found.studies == ("end", "end.test")
    assert found.chosen == "eta=0.02, kappa=0.2"


def test_the_curve_of_a_search_has_a_point_for_each_configuration(root: Path) -> None:
    """In the order of the record: a configuration has its mean over orders once both are finished."""
    study = StudyReader(sample_studies.url(root)).study("end")
    stages: set[object] = set()
    done: dict[tuple[object, object], list[float]] = {}
    expected: list[tuple[int, float]] = []
    for entry in study.entries.values():
        values = entry.values
        stages |= {("first", values["eta"], values["class_order"]), ("later", *values.values())}
        done.setdefault((values["eta"], values["kappa"]), []).append(80 + bonus(values))
        scores = done[values["eta"], values["kappa"]]
        if len(scores) == 2:
            epochs = sum(20 if each[0] == "first" else 40 for each in stages if isinstance(each, tuple))
            expected.append((epochs, max(sum(scores) / 2, *(score for _, score in expected), 0)))
    assert len(expected) == 4
    assert only(root, "end").curve == tuple(expected)
    assert expected[-1] == (400, 81.0)  # 80 + 3, less 2 on average over the orders


def test_a_choice_after_the_first_task_cannot_see_kappa(root: Path) -> None:
    found = only(root, "first")
    assert found.protocol == "first_k 1"
    assert found.unseen == ("kappa",)
    assert found.choosing.epochs == 4 * 20  # trials that differ in κ share their only stage
    assert found.training.epochs == 60
    assert found.configuration != only(root, "end").configuration, "of equal scores the first on the axes is chosen"
    assert found.by_run("class_il")[0, 0] == 62.0


def test_a_greedy_choice_has_a_path_and_scores_only_at_its_end(root: Path) -> None:
    found = only(root, "greedy")
    # task 1 tries 2 values of η, each later task 2 × 2 of η and κ from the one state that was kept
    assert found.choosing.epochs == 2 * 20 + 4 * 4 * 10
    assert [epochs for epochs, _ in found.curve][-1] == found.choosing.epochs
    assert len(found.curve) == 4
    assert found.protocol == "greedy 1"
    assert len(found.accuracies) == 4, "it was searched on the benchmark's own order, and tested on others"
    assert found.chosen == (
        "eta/1=0.02, eta/2=0.02, kappa/2=0.2, eta/3=0.02, kappa/3=0.1, eta/4=0.02, kappa/4=0.2, eta/5=0.02, kappa/5=0.2"
    )


def test_what_was_transferred_is_tested_elsewhere(root: Path) -> None:
    found = only(root, "transfer")
    assert (found.benchmark, found.tested_on, found.protocol) == ("seq_digits", "r_digits", "transfer to r_digits")
    assert set(found.accuracies) == {(0, "fixed"), (1, "fixed")}
    assert found.choosing.epochs == 400


def test_hours_are_epochs_times_what_an_epoch_has_taken(root: Path) -> None:
    """Of every Co²L study on the benchmark in this storage, whoever trained a stage first."""
    reader = StudyReader(sample_studies.url(root))
    studies = [reader.study(name) for name in reader.names()]
    costs = [study.cost() for study in studies if study.space.benchmark == "seq_digits" and study.name != "er"]
    rate = sum(cost.seconds for cost in costs) / 3600 / sum(cost.epochs_trained for cost in costs)
    (found,) = [each for each in results(reader, root="runs") if each.protocol == "first_k 1"]
    assert rate > 0
    assert found.choosing.hours == pytest.approx(80 * rate)
    assert found.training.hours == pytest.approx(60 * rate)


def test_each_value_that_is_selected_for_has_a_result(root: Path) -> None:
    one, two = results(StudyReader(sample_studies.url(root)), ["sizes"], root="runs")
    assert (one.group, two.group) == ("buffer_size=50", "buffer_size=100")
    assert (one.choosing.epochs, two.choosing.epochs) == (2 * 60, 2 * 60)
    assert len(one.accuracies) == 4
    assert not two.accuracies, "its evaluation was not run"


def test_a_search_without_an_evaluation_has_the_command_for_it(root: Path) -> None:
    found = only(root, "er")
    assert not found.accuracies
    assert found.command == "python -m co2l.evaluate --study er --root runs"
    assert found.choosing.epochs == 2 * 5 * 7
    assert found.left == 0


def test_an_evaluation_of_other_settings_is_not_one_of_the_choice(tmp_path: Path) -> None:
    search(tmp_path, "s", axes={"eta": [0.01]})
    evaluate(tmp_path, "s", distill_power=0.5)
    assert not only(tmp_path, "s").accuracies


def test_a_name_that_is_not_there_is_an_error(root: Path) -> None:
    with pytest.raises(Co2lError, match="unknown study 'ends'; did you mean 'end'"):
        only(root, "ends")


def test_trials_that_have_not_ended_are_not_counted(tmp_path: Path) -> None:
    space = space_of({"eta": [0.01, 0.02]})
    record = StudyRecord.open(sample_studies.url(tmp_path), "s", space)
    trials: list[Trial] = list(space.trials())
    record.begin(trials[0])
    assert only(tmp_path, "s").choosing.epochs == 0
    assert only(tmp_path, "s").curve == ()
    assert only(tmp_path, "s").left == 2
    assert not only(tmp_path, "s").accuracies
