"""Every shipped space loads, begins with the command that runs it, and the paper's grids are the paper's."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from co2l.learning.methods import METHODS
from co2l.search.space.evaluation import of_space
from co2l.search.space.plan import plan, together
from co2l.search.space.space import Space, load
from co2l.search.space.space_advice import space_advice

FOLDER = Path(__file__).resolve().parents[3] / "search_spaces"
EXPERIMENTS = sorted(FOLDER.glob("paper/**/*.yaml"))
SHIPPED = sorted(set(FOLDER.rglob("*.yaml")) - set(EXPERIMENTS))

# Cha et al., Co²L, appendix, Table "Hyperparameter space for Co²L" (label param-search-table), row by row.
PAPER: dict[str, dict[str, list[float]]] = {
    "seq_cifar10": {
        "eta": [0.1, 0.5, 1.0],
        "tau": [0.1, 0.5, 1.0],
        "kappa": [0.1, 0.2],
        "kappa_star": [0.01, 0.05, 0.1],
        "E_0": [500],
        "E_t": [50, 100],
        "batch_size": [256, 512, 1024],
    },
    "seq_tiny_imagenet": {
        "eta": [0.1, 0.5, 1.0],
        "tau": [0.1, 0.5, 1.0],
        "kappa": [0.1, 0.2],
        "kappa_star": [0.01, 0.05, 0.1],
        "E_0": [500],
        "E_t": [50, 100],
        "batch_size": [256, 512, 1024],
    },
    "r_mnist": {
        "eta": [0.01, 0.05, 0.1],
        "tau": [0.1, 0.5, 1.0],
        "kappa": [0.1, 0.2],
        "kappa_star": [0.01, 0.05, 0.1],
        "E_0": [100],
        "E_t": [10, 20],
        "batch_size": [256, 512, 1024],
    },
}
# The same appendix, Table "Hyperparameters chosen in our experiments" (label chosen-param-table), rows of Co²L.
CHOSEN = {
    "seq_cifar10": {"eta": 0.5, "tau": 0.5, "kappa": 0.2, "kappa_star": 0.01, "E_t": 100},
    "seq_tiny_imagenet": {"eta": 0.1, "tau": 0.5, "kappa": 0.1, "kappa_star": 0.1, "E_t": 50},
    "r_mnist": {"eta": 0.01, "tau": 0.1, "kappa": 0.2, "kappa_star": 0.01, "E_t": 20},
}
TASKS = {"seq_cifar10": 5, "seq_tiny_imagenet": 10, "r_mnist": 20}


def test_what_is_shipped() -> None:
    assert {path.stem for path in SHIPPED} >= {*PAPER, "seq_digits", "r_digits"}


def relative(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


@pytest.mark.parametrize("path", SHIPPED, ids=relative)
def test_a_shipped_space_loads_and_begins_with_its_command(path: Path) -> None:
    """Co²L's spaces are named by their benchmark and perhaps a size; the baselines' lie in a folder of that name.

    Those for CPUs lie in a folder per benchmark, and so do the seeds of a comparison, and those to compare protocols.
    """
    space = load(path)
    name = space.benchmark if space.method == "co2l" else f"{space.benchmark}/{space.method}"
    if FOLDER / "cpu" in path.parents:
        assert path.parent.name.removesuffix("_seeds") == space.benchmark
    elif FOLDER / "protocols" in path.parents:
        assert relative(path) == f"protocols/{space.benchmark}/{space.method}.yaml"
    else:
        assert relative(path).replace("_small.yaml", ".yaml") == f"{name}.yaml"
    text = path.read_text()
    command, _, options = text.splitlines()[0].partition(f" --space search_spaces/{relative(path)}")
    assert (command, options) in (("# python -m co2l.tune", ""), ("# python -m co2l.evaluate", " --seeds 1"))
    assert sum(1 for _ in space.trials()) == space.size


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_grid(name: str) -> None:
    space = load(FOLDER / f"{name}.yaml")
    assert "Hyperparameter space for Co²L" in (FOLDER / f"{name}.yaml").read_text()
    trials = list(space.trials())
    table = PAPER[name]
    for size in (200, 500):
        ours = [trial.config.settings for trial in trials if trial.config.settings.buffer_size == size]
        points = [tuple(getattr(settings, setting) for setting in table) for settings in ours]
        assert sorted(points) == sorted(product(*table.values()))
        assert len(points) == 324
    assert len(trials) == 648
    assert (space.algorithm.name, space.early_stop, space.objective) == ("grid", None, "val/score")
    assert (space.validation.fraction, space.seeds) == (0.1, (0,))
    for trial in trials:
        assert trial.config.settings.model_dump()["distill_power"] == 1.0  # λ for all experiments
    chosen = [trial for trial in trials if trial.values.items() >= CHOSEN[name].items()]
    assert {trial.values["buffer_size"] for trial in chosen} == {200, 500}


@pytest.mark.parametrize("name", PAPER)
def test_the_price_of_the_papers_grid(name: str) -> None:
    """27 first stages, of eta × tau × bsz; the rest differs in all 648 trials."""
    planned = plan(load(FOLDER / f"{name}.yaml"))
    (E_0,), E_t, later = PAPER[name]["E_0"], PAPER[name]["E_t"], TASKS[name] - 1
    rest = sum(epochs * later for epochs in E_t) * 324  # half of the 648 trials each
    assert (planned.trials, planned.first_stages) == (648, 27)
    assert planned.stages == 27 + 648 * later
    assert planned.epochs_naive == 648 * E_0 + rest
    assert planned.epochs_planned == 27 * E_0 + rest
    if name == "seq_cifar10":
        assert planned.ratio >= 2.49


BASELINES = [name for name in METHODS if name != "co2l"]

# The rates and weights of both sources on R-MNIST, buffers 200 and 500: the Co²L paper (table "chosen-param-table")
# and the Dark Experience Replay release as the protocol lists it.
SOURCES: dict[str, dict[str, set[float]]] = {
    "er": {"eta": {0.1, 0.2}},
    "gem": {"eta": {0.1, 0.3, 0.01}, "gamma": {0.5}},
    "agem": {"eta": {0.1, 0.3}},
    "fdr": {"eta": {0.1, 0.2}, "alpha": {1.0, 0.3}},
    "gss": {"eta": {0.2}, "gmbs": {128}, "nb": {1}, "minibatch_size": {10, 128}},
    "hal": {"eta": {0.03, 0.1}, "hal_lambda": {0.1, 0.2}, "beta": {0.3, 0.5}, "gamma": {0.1}},
    "der": {"eta": {0.1, 0.2}, "alpha": {0.5, 1.0}},
    "derpp": {"eta": {0.1, 0.2}, "alpha": {1.0, 0.5}, "beta": {0.5, 1.0}},
}


Both = tuple[dict[str, float], dict[str, float]]  # for buffers 200 and 500

# On Seq-CIFAR-10 and Seq-Tiny-ImageNet the paper quotes Buzzega et al.: the release's utils/best_args.py.
RELEASE_CIFAR10: dict[str, Both] = {
    "er": ({"eta": 0.1}, {"eta": 0.1}),
    "gem": ({"eta": 0.03, "gamma": 0.5}, {"eta": 0.03, "gamma": 0.5}),
    "agem": ({"eta": 0.03}, {"eta": 0.03}),
    "icarl": ({"eta": 0.1, "weight_decay": 1e-5}, {"eta": 0.1, "weight_decay": 1e-5}),
    "fdr": ({"eta": 0.03, "alpha": 0.3}, {"eta": 0.03, "alpha": 1.0}),
    "gss": ({"eta": 0.03, "gmbs": 32, "nb": 1}, {"eta": 0.03, "gmbs": 32, "nb": 1}),
    "hal": (
        {"eta": 0.03, "hal_lambda": 0.2, "beta": 0.5, "gamma": 0.1},
        {"eta": 0.03, "hal_lambda": 0.1, "beta": 0.3, "gamma": 0.1},
    ),
    "der": ({"eta": 0.03, "alpha": 0.3}, {"eta": 0.03, "alpha": 0.3}),
    "derpp": ({"eta": 0.03, "alpha": 0.1, "beta": 0.5}, {"eta": 0.03, "alpha": 0.2, "beta": 0.5}),
}
RELEASE_TINY_IMAGENET: dict[str, Both] = {  # and nothing for GEM, GSS and HAL
    "er": ({"eta": 0.1}, {"eta": 0.03}),
    "agem": ({"eta": 0.01}, {"eta": 0.01}),
    "icarl": ({"eta": 0.03, "weight_decay": 1e-5}, {"eta": 0.03, "weight_decay": 1e-5}),
    "fdr": ({"eta": 0.03, "alpha": 0.3}, {"eta": 0.03, "alpha": 1.0}),
    "der": ({"eta": 0.03, "alpha": 0.1}, {"eta": 0.03, "alpha": 0.1}),
    "derpp": ({"eta": 0.03, "alpha": 0.1, "beta": 1.0}, {"eta": 0.03, "alpha": 0.2, "beta": 0.5}),
}

# The paper's table "chosen-param-table"; what GSS replays is from the release.
CHOSEN_R_MNIST: dict[str, Both] = {
    "er": ({"eta": 0.1}, {"eta": 0.1}),
    "gem": ({"eta": 0.1, "gamma": 0.5}, {"eta": 0.3, "gamma": 0.5}),
    "agem": ({"eta": 0.1}, {"eta": 0.1}),
    "fdr": ({"eta": 0.1, "alpha": 1.0}, {"eta": 0.2, "alpha": 0.3}),
    "gss": (
        {"eta": 0.2, "gmbs": 128, "nb": 1, "minibatch_size": 10},
        {"eta": 0.2, "gmbs": 128, "nb": 1, "minibatch_size": 128},
    ),
    "hal": (
        {"eta": 0.03, "hal_lambda": 0.1, "beta": 0.3, "gamma": 0.1},
        {"eta": 0.03, "hal_lambda": 0.1, "beta": 0.5, "gamma": 0.1},
    ),
    "der": ({"eta": 0.1, "alpha": 0.5}, {"eta": 0.1, "alpha": 0.5}),
    "derpp": ({"eta": 0.1, "alpha": 1.0, "beta": 0.5}, {"eta": 0.2, "alpha": 1.0, "beta": 1.0}),
}
BASELINES_CHOSEN = {
    "seq_cifar10": RELEASE_CIFAR10,
    "seq_tiny_imagenet": RELEASE_TINY_IMAGENET,
    "r_mnist": CHOSEN_R_MNIST,
}
DERIVED = {"gem", "gss", "hal"}  # on Seq-Tiny-ImageNet: as on CIFAR-10


def test_every_baseline_has_its_spaces() -> None:
    shipped = {relative(path) for path in SHIPPED}
    for name in BASELINES:
        assert f"seq_digits/{name}.yaml" in shipped
        assert (f"r_mnist/{name}.yaml" in shipped) == ("domain" in METHODS[name].scenarios)


@pytest.mark.parametrize("name", SOURCES)
def test_a_baselines_grid_is_the_union_of_its_sources_and_one_more_rate_on_each_side(name: str) -> None:
    path = FOLDER / "r_mnist" / f"{name}.yaml"
    trials = list(load(path).trials())
    assert "derived" in path.read_text()
    for setting, values in SOURCES[name].items():
        tried = sorted({getattr(trial.config.settings, setting) for trial in trials})
        if setting == "eta":
            assert set(tried[1:-1]) == values
        else:
            assert set(tried) == values
    assert {trial.values["buffer_size"] for trial in trials} == {200, 500}
    for trial in trials:
        assert trial.config.settings.model_dump().items() >= {"epochs": 1, "batch_size": 128}.items()


@pytest.mark.parametrize("name", BASELINES)
def test_a_baselines_digits_are_few_and_counted(name: str) -> None:
    path = FOLDER / "seq_digits" / f"{name}.yaml"
    trials = plan(load(path)).trials
    assert 4 <= trials <= 16
    assert f"{trials} trials" in path.read_text()


def test_the_digits_share_first_stages() -> None:
    planned = plan(load(FOLDER / "seq_digits.yaml"))
    assert planned.trials >= 24
    assert planned.first_stages <= planned.trials / 4
    assert re.search(
        rf"{planned.trials} trials on {planned.first_stages} first", (FOLDER / "seq_digits.yaml").read_text()
    )


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: str(path.relative_to(FOLDER / "paper")))
def test_an_experiment_of_the_paper_loads_and_begins_with_its_command(path: Path) -> None:
    space = load(path)
    command = path.read_text().splitlines()[0]
    assert re.fullmatch(
        rf"# python -m co2l.evaluate --space search_spaces/{path.relative_to(FOLDER)}( --seeds \d)?", command
    )
    digits = "digits" in path.parts
    assert space.benchmark.endswith("digits") == digits
    assert sum(1 for _ in of_space(space, 10).trials()) == 10 * space.size
    for trial in space.trials():
        if not digits:  # what a table does not vary is what the paper chose
            settings = trial.config.settings.model_dump()
            column = 0 if settings["buffer_size"] == 200 else 1
            chosen = CHOSEN[space.benchmark] if space.method == "co2l" else baseline_chosen(space, path)[column]
            assert {name: settings[name] for name in chosen} == chosen


def baseline_chosen(space: Space, path: Path) -> Both:
    if space.benchmark == "seq_tiny_imagenet" and space.method in DERIVED:
        assert "Derived" in path.read_text()
        return RELEASE_CIFAR10[space.method]
    return BASELINES_CHOSEN[space.benchmark][space.method]


@pytest.mark.parametrize(
    ("folder", "baselines", "sizes"),
    [
        ("seq_cifar10", set(RELEASE_CIFAR10), [200, 500]),
        ("seq_tiny_imagenet", {*RELEASE_TINY_IMAGENET, *DERIVED}, [200, 500]),
        ("r_mnist", set(CHOSEN_R_MNIST), [200, 500]),
        ("digits/r_digits", set(CHOSEN_R_MNIST), [50, 100]),
    ],
)
def test_the_papers_baselines_are_run_with_both_buffers(folder: str, baselines: set[str], sizes: list[int]) -> None:
    assert {path.stem for path in (FOLDER / "paper" / folder).glob("*.yaml")} == baselines
    for name in baselines:
        trials = load(FOLDER / f"paper/{folder}/{name}.yaml").trials()
        assert [trial.config.settings.model_dump()["buffer_size"] for trial in trials] == sizes


@pytest.mark.parametrize("name", RELEASE_CIFAR10)
def test_a_baseline_learns_from_natural_images_as_its_release_does(name: str) -> None:
    """50 or 100 epochs of batches of 32, replayed ones too, of images moved by up to 4 pixels and flipped."""
    for benchmark, epochs in (("seq_cifar10", 50), ("seq_tiny_imagenet", 100)):
        for trial in load(FOLDER / f"paper/{benchmark}/{name}.yaml").trials():
            settings = trial.config.settings.model_dump()
            assert (settings["epochs"], settings["batch_size"], settings["augment"]) == (epochs, 32, "shift_flip")
            assert settings.get("minibatch_size", 32) == 32


def test_every_experiment_has_a_small_twin() -> None:
    named = {path.stem for path in EXPERIMENTS if path.parent.name == "paper"}
    proxies = {path.stem for path in EXPERIMENTS if path.parent.name == "digits"}
    of_a_benchmark = re.compile(r"_(seq_cifar10|seq_tiny_imagenet|r_mnist|seq_digits|r_digits)$")
    assert {of_a_benchmark.sub("", name) for name in named} == {of_a_benchmark.sub("", name) for name in proxies}


@pytest.mark.parametrize("folder", ["", "digits/"])
def test_the_ablations_begin_like_the_main_table(folder: str) -> None:
    """All on one benchmark with SupCon: the first stages are the table's, one per seed."""
    main, of = ("table1_seq_digits", "") if folder else ("table1_seq_cifar10", "_seq_cifar10")
    names = [main, "ird_ablation", f"asymmetric{of}", f"distillation{of}", "ird_power", "features"]
    spaces = [of_space(load(FOLDER / f"paper/{folder}{name}.yaml"), 3) for name in names]
    assert together(spaces).first_stages == plan(spaces[0]).first_stages == 3


def test_the_small_cifar10_needs_neither_a_gpu_nor_an_evening() -> None:
    space = load(FOLDER / "seq_cifar10_small.yaml")
    planned = plan(space)
    assert space.resources.gpus == 0
    assert {trial.config.settings.width for trial in space.trials()} == {16}
    assert (planned.trials, planned.first_stages) == (12, 3)
    assert planned.epochs_naive == 12 * (6 + 4 * 3)
    assert space_advice(space) == []
