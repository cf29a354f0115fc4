"""What a worker gets to know of its trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from spaces import space_of

from co2l.search.service import Options, assignments
from co2l.search.space.evaluation import of_space

OPTIONS = Options(Path("/r"), "s", Path("/d"), "/r/store", "sqlite:////r/study.db", "sqlite:////r/mlflow.db")


def test_a_worker_knows_its_configuration_and_where_states_are_but_no_database() -> None:
    space = space_of(resources={"cpus": 2.5})
    trial = next(space.trials())
    assigned = assignments(space, replace(OPTIONS, save_every=7.0))(trial)
    assert (assigned.trial, assigned.store, assigned.data) == (trial.key, "/r/store", "/d")
    assert (assigned.device, assigned.threads, assigned.save_every, assigned.exports) == ("cpu", 2, 7.0, "")
    assert assigned.config == {
        "benchmark": "seq_digits",
        "method": "co2l",
        "seed": 0,
        "settings": trial.config.as_dict()["settings"],
    }
    assert assigned.split["kind"] == "search"
    assert "study.db" not in str(assigned)
    assert "mlflow" not in str(assigned)


def test_stages_that_other_trials_use_are_retained() -> None:
    space = space_of({"eta": [0.01, 0.02], "kappa": [0.1, 0.2]})
    assign = assignments(space, OPTIONS)
    for trial in space.trials():
        keys = trial.config.stage_keys(5)
        assert assign(trial).retained == (keys[0],)  # κ is read from the second task on


def test_first_stages_of_a_race_are_retained() -> None:
    space = space_of({"eta": [0.01, 0.02]}, selection={"race": {"seeds": 2}})
    (raced,) = space.trials_of({"eta": 0.01}, [1])
    assigned = assignments(space, OPTIONS)(raced)
    assert assigned.retained == (raced.config.stage_keys(5)[0],)
    assert (assigned.split["seed"], assigned.config["seed"]) == (1, 1)
    assert all(assignments(space, OPTIONS)(trial).retained == () for trial in space.trials())


def test_without_reuse_every_trial_has_its_own_store_and_retains_nothing() -> None:
    space = space_of({"kappa": [0.1, 0.2]})
    assign = assignments(space, replace(OPTIONS, reuse=False))
    stores = {assign(trial).store: trial.key for trial in space.trials()}
    assert stores == {f"/r/store/alone/{trial.key}": trial.key for trial in space.trials()}
    assert all(assign(trial).retained == () for trial in space.trials())


@pytest.mark.parametrize("reuse", [True, False])
def test_an_evaluation_exports_its_first_seed_and_retains_first_stages(reuse: bool) -> None:
    evaluation = of_space(space_of({"eta": [0.01, 0.02]}), seeds=2)
    assign = assignments(evaluation, replace(OPTIONS, reuse=reuse))
    for trial in evaluation.trials():
        assigned = assign(trial)
        assert assigned.exports == ("/r/store" if trial.seed == 0 else "")
        assert assigned.retained == ((trial.config.stage_keys(5)[0],) if reuse else ())
        assert assigned.split["kind"] == "evaluation"


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (0.25, "auto"), (1, "auto")])
def test_a_trial_without_a_gpu_computes_on_the_cpu(gpus: float, device: str) -> None:
    """Ray hides nothing from it, and it would take the memory of a trial that has GPU 0 to itself."""
    space = space_of(resources={"gpus": gpus})
    assigned = assignments(space, OPTIONS)(next(space.trials()))
    assert (assigned.device, assigned.gpus) == (device, gpus)
