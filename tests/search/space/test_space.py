"""A space is read as it was meant, or refused with one line; its trials, identity and overrides."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from bad_spaces import BAD, GOOD, SAMPLED, changed
from hypothesis import given
from hypothesis import strategies as st

from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.methods import configure
from co2l.search.space.document import EarlyStop, Range
from co2l.search.space.growth import difference
from co2l.search.space.space import Space, load, parse


def of(text: str) -> Space:
    return parse(yaml.safe_load(text), "space.yaml")


@pytest.mark.parametrize("name", BAD)
def test_bad_spaces(name: str, tmp_path: Path) -> None:
    text, expected = BAD[name]
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(Co2lError) as caught:
        load(path)
    line = str(caught.value)
    assert line.startswith(f"{path}")
    assert "\n" not in line
    assert "; " in line, "nothing says what would be right"
    for part in expected:
        assert part in line


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "missing.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(Co2lError, match=f"{path}: cannot be read \\({reason}.*as seen from {Path.cwd()}"):
            load(path)
    (tmp_path / "seq_digits.yaml").write_text("")
    with pytest.raises(Co2lError, match=r"cannot be read .* did you mean '.*/seq_digits.yaml'\?"):
        load(tmp_path / "seq_digit.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00benchmark")
    with pytest.raises(Co2lError, match=r"binary.yaml: not a text file"):
        load(binary)
    deep = tmp_path / "deep.yaml"
    deep.write_text("axes: " + "[" * 5000)
    with pytest.raises(Co2lError, match=r"deep.yaml: not valid YAML"):
        load(deep)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("ab\n'", max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([*Space.model_fields, "eta", "low", "high", "rungs", "per"]), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_any_data_is_a_space_or_one_line(data: Any) -> None:
    base = yaml.safe_load(GOOD)
    for document in (data, {**base, **data} if isinstance(data, dict) else data):
        try:
            parse(document, "space.yaml")
        except Co2lError as error:
            assert "\n" not in str(error)  # noqa: PT017 (either way is right)


def test_a_setting_of_another_method() -> None:
    expected = "axes.alpha: 'alpha' is not a setting of method 'co2l'; remove it, or set method to fdr or der or derpp"
    with pytest.raises(Co2lError, match=expected):
        of(changed("kappa", "alpha"))


def test_defaults() -> None:
    space = of("benchmark: r_digits\naxes: {eta: [0.1]}")
    assert (space.method, space.seeds, space.objective, space.algorithm.name) == ("co2l", (0,), "val/score", "grid")
    assert (space.validation.fraction, space.validation.seed) == (0.1, 0)
    assert space.early_stop is None
    assert space.selection.per == space.selection.mean_over == ()
    assert (space.resources.cpus, space.resources.gpus, space.retries) == (1, 0, 2)


def test_everything_that_can_be_said() -> None:
    space = of(
        """
        benchmark: seq_digits
        method: co2l
        settings: {tau: 1, replay: false}
        axes:
          eta: {low: 1e-3, high: 1, log: true}
          buffer_size: [50, unlimited]
          batch_size: {low: 16, high: 64}
        seeds: [3, 1]
        validation: {fraction: 0.2, seed: 7}
        objective: class_il
        selection: {per: [buffer_size]}
        algorithm: tpe
        samples: 40
        early_stop: {rungs: [1, 3], survivors: 0.25, min_trials: 8}
        resources: {cpus: 0.5, gpus: 0.25}
        retries: 0
    """.replace("1e-3", "0.001")
    )
    assert space.axes["eta"] == Range(low=0.001, high=1.0, log=True)
    assert space.axes["buffer_size"] == (50, "unlimited")
    batch = space.axes["batch_size"]
    assert isinstance(batch, Range)
    assert isinstance(batch.low, int)
    assert space.objective == "val/class_il"
    assert space.early_stop == EarlyStop(rungs=(1, 3), survivors=0.25, min_trials=8)
    assert (space.seeds, space.samples, space.retries) == ((3, 1), 40, 0)
    assert space.size is None
    with pytest.raises(Co2lError, match=r"axes.eta: a range has no grid"):
        list(space.trials())


@pytest.mark.parametrize(
    ("text", "rungs"),
    [("off", None), ("'off'", None), ("false", None), ("null", None),
     ("on", (2, 3, 4)), ("{survivors: 0.3}", (2, 3, 4))],
)  # fmt: skip
def test_early_stop_switch(text: str, rungs: tuple[int, ...] | None) -> None:
    stop = of(GOOD + f"early_stop: {text}\n").early_stop
    assert (stop.rungs if stop else None) == rungs


def test_a_space_is_immutable() -> None:
    space = of(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        space.retries = 5
    assert pickle.loads(pickle.dumps(space)) == space


def test_trials_are_the_whole_grid() -> None:
    space = of(GOOD)
    expected = [
        ({"eta": eta, "kappa": kappa, "buffer_size": size}, seed)
        for eta, kappa, size, seed in itertools.product([0.01, 0.02], [0.1, 0.2], [50, 100], [0, 1])
    ]
    trials = list(space.trials())
    assert [(dict(trial.values), trial.seed) for trial in trials] == expected
    assert space.size == len(trials) == len({trial.key for trial in trials}) == 16
    for trial, (values, seed) in zip(trials, expected, strict=True):
        fixed = {"E_0": 2, "E_t": 1, "tau": 0.1}
        split = Split("search", 0.1, 0)
        assert trial.config == configure("seq_digits", "co2l", {**fixed, **values}, seed=seed, split=split)
        assert trial.key == trial.config.key
    assert len({trial.group for trial in trials}) == 8


def test_trials_are_enumerated_lazily() -> None:
    axes = {name: [i / 100 for i in range(1, 101)] for name in ("eta", "tau", "kappa", "kappa_star", "momentum")}
    axes["momentum"] = [i / 200 for i in range(100)]
    space = parse({"benchmark": "seq_digits", "axes": axes, "algorithm": "random", "samples": 9}, "huge.yaml")
    assert space.size == 100**5
    assert len(list(itertools.islice(space.trials(), 10))) == 10


def test_a_prefix_is_what_the_first_stage_depends_on() -> None:
    trials = list(of(GOOD).trials())
    for a, b in itertools.combinations(trials, 2):
        assert (a.chain[0] == b.chain[0]) == (a.config.stage_key(0) == b.config.stage_key(0))


def test_a_combination_that_no_single_value_shows_is_refused_when_met() -> None:
    space = of(
        changed("kappa: [0.1, 0.2]", "buffer_policy: [reservoir, class_balanced]").replace("[50, 100]", "[50, 5]")
    )
    with pytest.raises(Co2lError, match=r"space.yaml: buffer_size=5 is smaller than the 10 classes"):
        list(space.trials())


def test_trial_off_the_grid() -> None:
    space = of(SAMPLED)
    trial = space.trial({"kappa": 0.3, "eta": 1, "buffer_size": 60}, 9)
    assert trial.values == {"eta": 1.0, "kappa": 0.3, "buffer_size": 60}
    assert (trial.seed, trial.config.settings.eta) == (9, 1.0)
    with pytest.raises(Co2lError, match="one value for each of eta, kappa, buffer_size"):
        space.trial({"eta": 1}, 0)
    with pytest.raises(Co2lError, match=r"space.yaml: eta: .*greater than 0"):
        space.trial({"kappa": 0.3, "eta": -1, "buffer_size": 60}, 9)


def test_draws_lie_in_the_space() -> None:
    axes = "eta: {low: 0.001, high: 1, log: true}\n  batch_size: {low: 16, high: 18}\n  tau: {low: 1, high: 2}"
    space = of(changed("eta: [0.01, 0.02]", axes, SAMPLED).replace("tau: 0.1", "momentum: 0.5"))
    drawn = [space.draw(random.Random(i)) for i in range(600)]
    assert {point["batch_size"] for point in drawn} == {16, 17, 18}
    assert {point["kappa"] for point in drawn} == {0.1, 0.2}
    etas = sorted(float(point["eta"]) for point in drawn)
    assert 0.001 <= etas[0] <= etas[-1] <= 1
    assert 0.02 < etas[300] < 0.05  # the middle of three orders of magnitude is 0.032
    taus = sorted(float(point["tau"]) for point in drawn)
    assert 1 <= taus[0] <= taus[-1] <= 2
    assert 1.4 < taus[300] < 1.6


def test_a_sample_runs_with_every_seed_and_whatever_is_averaged_over() -> None:
    space = of(SAMPLED + "selection: {mean_over: [buffer_size]}\n")
    point = space.draw(random.Random(0))
    assert point.keys() == {"eta", "kappa"}
    runs = [(trial.values["buffer_size"], trial.seed) for trial in space.trials_of(point)]
    assert runs == [(50, 0), (50, 1), (100, 0), (100, 1)]
    assert len(list(of(SAMPLED).trials_of(of(SAMPLED).draw(random.Random(0))))) == 2


def test_the_same_space_in_other_words_has_the_same_digest() -> None:
    space = of(GOOD)
    document = yaml.safe_load(GOOD)
    same = [
        {**document, "axes": dict(reversed(document["axes"].items()))},
        {**document, "settings": {**document["settings"], "distill_power": 1}},  # the default, said aloud
        {**document, "resources": {"cpus": 2}, "retries": 7, "objective": "score", "early_stop": False},
    ]
    for other in same:
        assert parse(other, "other.yaml").digest == space.digest
        assert space.difference(parse(other, "other.yaml")) == []
    sampled = of(SAMPLED)
    assert sampled.digest == sampled.replace(samples=50).digest != space.digest


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("[0.01, 0.02]", "[0.01, 0.05]", ["axes.eta: [0.01, 0.02] → [0.01, 0.05]"]),
        ("tau: 0.1", "tau: 0.5", ["settings.tau: 0.1 → 0.5"]),
        ("[0, 1]", "[0]", ["seeds: [0, 1] → [0]"]),
        ("  kappa: [0.1, 0.2]\n", "", ["axes.kappa: [0.1, 0.2] → nothing", "settings.kappa: nothing → 0.1"]),
        ("method: co2l", "validation: {seed: 3}", ["validation.seed: 0 → 3"]),
        ("method: co2l", "early_stop: {rungs: [2]}", [
            "early_stop: null → nothing",
            "early_stop.rungs: nothing → [2]",
            "early_stop.survivors: nothing → 0.5",
            "early_stop.min_trials: nothing → 2",
        ]),
        ("seq_digits", "r_digits", ["benchmark: \"seq_digits\" → \"r_digits\""]),
    ],
)  # fmt: skip
def test_a_difference_is_shown(old: str, new: str, lines: list[str]) -> None:
    before, after = of(GOOD), of(changed(old, new))
    assert before.digest != after.digest
    shown = before.difference(after)
    assert set(lines) <= set(shown)
    if old != "seq_digits":  # another benchmark has other defaults too
        assert len(shown) == len(lines)
    assert difference(before.canonical(), after.canonical()) == shown


def test_canonical_form_survives_json() -> None:
    space = of(changed("[0.01, 0.02]", "{low: 0.01, high: 0.1, log: true}", SAMPLED))
    assert json.loads(json.dumps(space.canonical())) == space.canonical()


def test_overrides() -> None:
    space = of(GOOD + "selection: {per: [buffer_size]}\n")
    changed = space.with_settings({"tau": 0.5, "buffer_size": 50, "kappa_star": [0.01, 0.05], "E_t": 3})
    assert changed.axes == {"eta": (0.01, 0.02), "kappa": (0.1, 0.2), "buffer_size": (50,), "kappa_star": (0.01, 0.05)}
    assert {trial.config.settings.E_t for trial in changed.trials()} == {3}
    assert {trial.values["buffer_size"] for trial in changed.trials()} == {50}
    assert changed.source == space.source
    assert space.with_settings({}) == space
    assert of(GOOD).with_settings({"tau": [0.1, 0.2]}).axes["tau"] == (0.1, 0.2)
    for bad, message in (
        ({"kapa": 1}, "space.yaml with --set: settings: unknown setting 'kapa'; did you mean 'kappa'"),
        ({"eta": -1}, "space.yaml with --set: axes.eta: .* greater than 0, got -1"),
        ({"tau": "x"}, "space.yaml with --set: settings.tau: .* got 'x'"),
        ({"seed": 1}, "list them under the key seeds"),
    ):
        with pytest.raises(Co2lError, match=message):
            space.with_settings(bad)


def test_replacing_keys_checks_them_together() -> None:
    space = of(GOOD)
    assert space.replace(algorithm="tpe", samples=9, early_stop={"rungs": [1]}).early_stop == EarlyStop(rungs=(1,))
    with pytest.raises(Co2lError, match=r"space.yaml with --algorithm: the key 'samples' is missing"):
        space.replace(algorithm="tpe", where="--algorithm")


VARIANTS = """\
benchmark: seq_digits
axes: {buffer_size: [50, 100]}
variants:
  a: {replay: false, distillation: none}
  b: {replay: false}
  slow: {eta: 0.001}
seeds: [0, 1]
"""


def test_variants_set_settings_together() -> None:
    space = of(VARIANTS)
    trials = list(space.trials())
    assert (space.size, len({trial.key for trial in trials})) == (12, 12)
    found = [
        (trial.values["variant"], s["replay"], s["distillation"], s["eta"], s["buffer_size"])
        for trial in trials
        if trial.seed == 0 and (s := trial.config.settings.model_dump())
    ]
    assert found == [
        ("a", False, "none", 0.01, 50),
        ("a", False, "none", 0.01, 100),
        ("b", False, "ird", 0.01, 50),
        ("b", False, "ird", 0.01, 100),
        ("slow", True, "ird", 0.001, 50),
        ("slow", True, "ird", 0.001, 100),
    ]
    for one, other in itertools.combinations(trials, 2):
        assert (one.chain[0] == other.chain[0]) == (one.config.stage_key(0) == other.config.stage_key(0))
        assert (one.chain == other.chain) == (one.config.stage_key(1) == other.config.stage_key(1))


def test_variants_can_be_chosen_among_and_read_again() -> None:
    space = of(VARIANTS)
    assert [trial.values["variant"] for trial in space.with_settings({"variant": ["b"]}).trials()] == ["b"] * 4
    again = parse(space.canonical(), "again")
    assert [trial.key for trial in again.trials()] == [trial.key for trial in space.trials()]
    assert again.digest == space.digest
    spelt_out = VARIANTS.replace("a: {", "a: {eta: 0.01, ")
    assert of(spelt_out).digest == space.digest
    assert space.difference(of(VARIANTS.replace("0.001", "0.002"))) == ["variants.slow.eta: 0.001 → 0.002"]
