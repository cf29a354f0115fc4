"""Evaluations made of spaces and of configurations, and what their seeds come to."""

from __future__ import annotations

from typing import Any

import pytest

from co2l.errors import Co2lError
from co2l.learning.results import Chosen
from co2l.search.record.entries import Entry
from co2l.search.selection.seeds import summarise_seeds
from co2l.search.space.evaluation import of_configurations, of_space
from co2l.search.space.plan import plan, together
from co2l.search.space.space import parse

SPACE = {
    "benchmark": "seq_digits",
    "axes": {"buffer_size": [50, 100]},
    "seeds": [7],
    "algorithm": "tpe",
    "samples": 1,
    "early_stop": True,
    "selection": {"per": ["buffer_size"]},
}


def chosen(**keys: Any) -> Chosen:
    return Chosen.model_validate({"benchmark": "seq_digits", **keys})


def test_every_trial_of_a_space_is_evaluated() -> None:
    evaluation = of_space(parse(SPACE, "space.yaml"), 3)
    trials = list(evaluation.trials())
    assert [(trial.values["buffer_size"], trial.seed) for trial in trials] == [
        (b, s) for b in (50, 100) for s in range(3)
    ]
    assert {trial.config.split.kind for trial in trials} == {"evaluation"}
    assert (evaluation.algorithm.name, evaluation.early_stop) == ("grid", None)
    ranged = parse({**SPACE, "axes": {"eta": {"low": 0.1, "high": 1}}, "selection": {}}, "space.yaml")
    with pytest.raises(Co2lError, match=r"space.yaml: axes.eta: a range has no grid"):
        of_space(ranged, 3)


def test_configurations_become_variants_named_by_what_they_were_chosen_for() -> None:
    both = [
        chosen(settings={"eta": 0.02, "kappa": k, "buffer_size": b}, group={"buffer_size": b})
        for b, k in ((50, 0.1), (100, 0.2))
    ]
    evaluation = of_configurations(both, 2, "selected.yaml")
    found = [
        (trial.values["variant"], trial.seed, s["eta"], s["kappa"], s["buffer_size"])
        for trial in evaluation.trials()
        if (s := trial.config.settings.model_dump())
    ]
    assert found == [
        ("buffer_size=50", 0, 0.02, 0.1, 50),
        ("buffer_size=50", 1, 0.02, 0.1, 50),
        ("buffer_size=100", 0, 0.02, 0.2, 100),
        ("buffer_size=100", 1, 0.02, 0.2, 100),
    ]
    (trial,) = of_configurations([chosen(settings={"eta": 0.02})], 1, "result.json").trials()
    assert (dict(trial.values), trial.config.settings.eta) == ({"variant": "chosen"}, 0.02)


def test_configurations_that_do_not_belong_together() -> None:
    with pytest.raises(Co2lError, match=r"x.yaml: mixed configurations: co2l on r_digits, co2l on seq_digits"):
        of_configurations([chosen(), Chosen(benchmark="r_digits")], 1, "x.yaml")
    with pytest.raises(Co2lError, match=r"x.yaml: mixed configurations: none"):
        of_configurations([], 1, "x.yaml")
    with pytest.raises(Co2lError, match=r"x.yaml: variants.chosen 2: has the same settings as 'chosen 1'"):
        of_configurations([chosen(), chosen()], 1, "x.yaml")


def test_mean_and_deviation_over_the_seeds_that_are_there() -> None:
    evaluation = of_space(parse(SPACE, "space.yaml"), 3)
    trials = list(evaluation.trials())
    scores = [60.0, 63.0, 66.0, 50.0]  # all of the first configuration, one of the second
    entries = [
        Entry(trial.key, trial.values, trial.seed, "done", result={"score": s, "average": {"class_il": s - 10}})
        for trial, s in zip(trials, scores, strict=False)
    ]
    whole, part = summarise_seeds(evaluation, reversed(entries))
    assert (whole.name, whole.seeds, whole.mean("class_il"), whole.std("class_il")) == (
        "buffer_size=50",
        (0, 1, 2),
        53.0,
        3.0,  # √((9 + 0 + 9) / 2)
    )
    assert whole.shown("score") == "63.00 ± 3.00"
    assert (part.seeds, part.mean("score"), part.std("score"), part.shown("score")) == ((0,), 50.0, None, "50.00")


def test_experiments_share_stages() -> None:
    """20 + 4 × 10 epochs: table and ablation have the first stage and one whole run in common, per seed."""
    table = of_space(parse({"benchmark": "seq_digits", "axes": {"buffer_size": [50, 100]}}, "table"), 2)
    variants = {"without": {"distillation": "none"}, "with": {"distillation": "ird"}}
    ablation = {"benchmark": "seq_digits", "settings": {"buffer_size": 100}, "variants": variants}
    both = [table, of_space(parse(ablation, "ablation"), 2)]
    assert [(each.first_stages, each.epochs_planned) for each in map(plan, both)] == [(2, 200), (2, 200)]
    joint = together(both)
    assert (joint.trials, joint.first_stages, joint.stages) == (8, 2, 2 * (1 + 3 * 4))
    assert (joint.epochs_planned, joint.epochs_naive) == (2 * (20 + 3 * 40), 8 * 60)
    assert plan(table).shared < joint.shared
