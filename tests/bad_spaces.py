"""Malformed and senseless search spaces, each with what its one line must say beside the file's name."""

from __future__ import annotations

GOOD = """\
benchmark: seq_digits
method: co2l
settings: {E_0: 2, E_t: 1, tau: 0.1}
axes:
  eta: [0.01, 0.02]
  kappa: [0.1, 0.2]
  buffer_size: [50, 100]
seeds: [0, 1]
"""
SAMPLED = GOOD + "algorithm: random\nsamples: 5\n"


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new)


VARIANTS = GOOD + "variants:\n  plain: {replay: false}\n  full: {replay: true, distillation: ird}\n"

# name: (the file's text, parts of the message)
BAD: dict[str, tuple[str, list[str]]] = {
    "empty file": ("", ["is empty", "benchmark and axes"]),
    "only a comment": ("# nothing\n", ["is empty"]),
    "a list": ("- benchmark\n", ["instead of keys"]),
    "syntax": ("benchmark: seq_digits\naxes: {eta: [0.1\n", ["not valid YAML in line 3"]),
    "tab": ("benchmark: seq_digits\naxes:\n\teta: [1]\n", ["not valid YAML in line 3"]),
    "object": (GOOD + "retries: !!python/object/apply:os.getcwd []\n", ["not valid YAML in line 9"]),
    "impossible date": (GOOD + "retries: 2020-13-45\n", ["retries: input should be a valid integer, got '2020-13-45'"]),
    "key twice": (GOOD + "seeds: [3]\n", ["line 9", "'seeds' is there twice"]),
    "axis twice": (changed("kappa:", "eta:"), ["line 6", "'eta' is there twice"]),
    "key not text": (GOOD + "1: 2\n", ["line 9", "'1' is not text"]),
    "key read as a boolean": (changed("tau:", "on:"), ["line 3", "'on' is not text"]),
    "start off an axis": (GOOD + "start: [{eta: 0.3}]\n", ["start, point 1: 0.3 is no value of the axis eta"]),
    "start of a text": (GOOD + "start: [{eta: much}]\n", ["start, point 1: 'much' is no value of the axis eta"]),
    "start of no axis": (GOOD + "start: [{}, {kapa: 0.1}]\n", ["start, point 2: unknown axis 'kapa'", "'kappa'"]),
    "start that is averaged over": (
        GOOD + "selection: {mean_over: [buffer_size]}\nstart: [{buffer_size: 50}]\n",
        ["start, point 1: unknown axis 'buffer_size'", "valid are: eta, kappa"],
    ),
    "start without a range's value": (
        changed("[0.1, 0.2]", "{low: 0.1, high: 0.2}", SAMPLED) + "start: [{eta: 0.01}]\n",
        ["start, point 1: 'kappa' is a range and has no value", "give kappa a value"],
    ),
    "start that is no list": (GOOD + "start: {eta: 0.01}\n", ["start: not a list"]),
    "unknown key": (GOOD + "algoritm: grid\n", ["unknown key 'algoritm'", "did you mean 'algorithm'?"]),
    "unknown key, nothing close": (GOOD + "zzz: 1\n", ["unknown key 'zzz'", "valid are: algorithm, axes"]),
    "unknown key inside": (GOOD + "validation: {fractoin: 0.1}\n", ["validation: unknown key", "'fraction'"]),
    "unknown key of a range": (
        changed("[0.01, 0.02]", "{low: 0.1, hihg: 1}", SAMPLED),
        ["axes.eta: unknown key 'hihg'", "'high'"],
    ),
    "no benchmark": (changed("benchmark: seq_digits\n", ""), ["the key 'benchmark' is missing", "task stream"]),
    "misspelt required key": (changed("benchmark", "benchmrk"), ["'benchmrk'", "did you mean 'benchmark'?"]),
    "no axes": ("benchmark: seq_digits\n", ["the key 'axes' is missing", "settings to try"]),
    "axes without any": ("benchmark: seq_digits\naxes: {}\n", ["axes: nothing is listed"]),
    "variant with an unknown setting": (
        changed("distillation", "distilation", VARIANTS),
        ["variants.full: unknown setting 'distilation'", "did you mean 'distillation'?"],
    ),
    "variant with a wrong value": (
        changed("distillation: ird", "distillation: irt", VARIANTS),
        ["variants.full.distillation: ", "got 'irt'"],
    ),
    "variant with several values": (
        changed("distillation: ird", "distillation: [ird]", VARIANTS),
        ["variants.full.distillation: ['ird'] is not one value"],
    ),
    "variant of an axis": (
        changed("distillation: ird", "kappa: 0.1", VARIANTS),
        ["variants.full.kappa: kappa is an axis too", "one of the two"],
    ),
    "variant of a fixed setting": (
        changed("distillation: ird", "tau: 0.1", VARIANTS),
        ["variants.full.tau: tau is fixed under settings too"],
    ),
    "two variants alike": (
        changed("replay: false", "distillation: ird", VARIANTS),
        ["variants.full: has the same settings as 'plain'"],
    ),
    "variant that does not exist": (
        changed("axes:\n", "axes:\n  variant: [plain, ful]\n", VARIANTS),
        ["axes.variant: unknown variant 'ful'", "did you mean 'full'?"],
    ),
    "an axis of variants without variants": (
        changed("axes:\n", "axes:\n  variant: [plain]\n"),
        ["axes: unknown setting 'variant'"],
    ),
    "unknown benchmark": (changed("seq_digits", "seq_digit"), ["benchmark: ", "did you mean 'seq_digits'?"]),
    "unknown method": (changed("co2l", "colt"), ["method: unknown method 'colt'", "did you mean 'co2l'?"]),
    "benchmark not text": (changed("seq_digits", "5"), ["benchmark: ", "got 5", "the name of a task stream"]),
    "axes not keys": ("benchmark: seq_digits\naxes: [eta]\n", ["axes: not a set of keys, got ['eta']"]),
    "axis without a list": (changed("[0.01, 0.02]", "0.01"), ["axes.eta: not a list of values, got 0.01", "as [0.1"]),
    "empty axis": (changed("[0.01, 0.02]", "[]"), ["axes.eta: nothing is listed, got []"]),
    "duplicate values": (changed("[0.01, 0.02]", "[0.01, 0.02, 0.01]"), ["axes.eta", "0.01 is there twice", "once"]),
    "duplicate values, spelt otherwise": (changed("[0.01, 0.02]", "[1, 1.0]"), ["axes.eta", "1.0 is there twice"]),
    "range with grid": (
        changed("[0.01, 0.02]", "{low: 0.01, high: 0.1}"),
        ["axes.eta: a range has no grid", "random or tpe"],
    ),
    "low above high": (
        changed("[0.01, 0.02]", "{low: 0.5, high: 0.1}", SAMPLED),
        ["axes.eta: low 0.5 is not below high 0.1"],
    ),
    "low equals high": (changed("[0.01, 0.02]", "{low: 0.5, high: 0.5}", SAMPLED), ["axes.eta: low 0.5 is not below"]),
    "log from zero": (
        changed("[0.1, 0.2]", "[0.1]\n  weight_decay: {low: 0, high: 0.1, log: true}", SAMPLED),
        ["axes.weight_decay: a logarithmic range cannot start at 0.0", "above 0"],
    ),
    "range without high": (
        changed("[0.01, 0.02]", "{low: 0.5}", SAMPLED),
        ["'axes.eta.high' is missing", "the largest value"],
    ),
    "range of text": (
        changed("[0.01, 0.02]", "{low: small, high: 1}", SAMPLED),
        ["axes.eta.low: not a number, got 'small'", "the smallest value"],
    ),
    "range of a switch": (
        changed("[0.1, 0.2]", "[0.1]\n  replay: {low: 0, high: 1}", SAMPLED),
        ["axes.replay: replay is not a number", "list its values"],
    ),
    "fraction of a whole number": (
        changed("[50, 100]", "{low: 50.5, high: 100}", SAMPLED),
        ["axes.buffer_size: ", "got 50.5"],
    ),
    "unknown setting": (changed("tau", "tua"), ["settings: unknown setting 'tua'", "did you mean 'tau'?"]),
    "unknown axis": (changed("kappa", "kapa"), ["axes: unknown setting 'kapa'", "did you mean 'kappa'?"]),
    "fixed and axis": (changed("tau: 0.1", "eta: 0.1"), ["axes.eta: eta is fixed under settings too", "in one"]),
    "seed as an axis": (changed("kappa", "seed"), ["axes.seed: a seed is not a setting", "under the key seeds"]),
    "list as a setting": (changed("tau: 0.1", "tau: [0.1, 0.5]"), ["settings.tau: [0.1, 0.5] is not one", "axes"]),
    "nothing as a setting": (changed("tau: 0.1", "tau:"), ["settings.tau: None is not one value"]),
    "list in an axis": (changed("[0.01, 0.02]", "[[0.01], 0.02]"), ["axes.eta: [0.01] is not one value"]),
    "setting refused": (changed("tau: 0.1", "tau: -1"), ["settings.tau: ", "greater than 0, got -1", "temperature"]),
    "value refused": (changed("[0.01, 0.02]", "[0.01, fast]"), ["axes.eta: ", "valid number", "got 'fast'"]),
    "value not finite": (changed("[0.01, 0.02]", "[0.01, .inf]"), ["axes.eta: ", "finite number"]),
    "truth for a number": (changed("[0.01, 0.02]", "[0.01, yes]"), ["axes.eta: ", "got True", "learning rate"]),
    "settings at odds": (changed("[50, 100]", "[5, 50]"), ["axes.buffer_size: buffer_size=5 is", "at least 10"]),
    "no seeds": (changed("[0, 1]", "[]"), ["seeds: nothing is listed"]),
    "negative seed": (changed("[0, 1]", "[0, -1]"), ["seeds.1: ", "greater than or equal to 0, got -1"]),
    "seed twice": (changed("[0, 1]", "[1, 1]"), ["seeds: a seed is there twice"]),
    "seed not whole": (changed("[0, 1]", "[0.5]"), ["seeds.0: ", "got 0.5", "whole numbers"]),
    "seeds not a list": (changed("[0, 1]", "3"), ["seeds: not a list, got 3"]),
    "fraction too large": (GOOD + "validation: {fraction: 1.0}\n", ["validation.fraction: ", "less than 1, got 1.0"]),
    "fraction as text": (GOOD + "validation: {fraction: '0.1'}\n", ["validation.fraction: ", "got '0.1'"]),
    "validation not keys": (GOOD + "validation: 0.1\n", ["validation: not a set of keys, got 0.1", "{fraction"]),
    "unknown objective": (GOOD + "objective: val/scor\n", ["objective: ", "did you mean 'val/score'?"]),
    "objective of another scenario": (GOOD + "objective: domain_il\n", ["objective: ", "val/class_il, val/task_il"]),
    "per and mean_over": (
        GOOD + "selection: {per: [kappa], mean_over: [buffer_size, kappa]}\n",
        ["selection: 'kappa' is under per and mean_over", "keep it under"],
    ),
    "selection of no axis": (GOOD + "selection: {per: [bufer_size]}\n", ["selection.per: ", "'buffer_size'?"]),
    "selection of a fixed setting": (GOOD + "selection: {mean_over: [tau]}\n", ["selection.mean_over: unknown axis"]),
    "selection without a list": (GOOD + "selection: {per: kappa}\n", ["selection.per: not a list, got 'kappa'"]),
    "selection twice": (GOOD + "selection: {per: [kappa, kappa]}\n", ["selection.per: 'kappa' is there twice"]),
    "selection over a range": (
        changed("[0.01, 0.02]", "{low: 0.1, high: 1}", SAMPLED) + "selection: {per: [eta]}\n",
        ["selection.per: 'eta' is a range", "axes.eta"],
    ),
    "unknown algorithm": (GOOD + "algorithm: gird\n", ["algorithm: unknown algorithm 'gird'", "'grid'?"]),
    "samples with grid": (GOOD + "samples: 5\n", ["samples: a grid tries all", "random or tpe"]),
    "no samples": (GOOD + "algorithm: tpe\n", ["the key 'samples' is missing for algorithm 'tpe'", "samples: 50"]),
    "zero samples": (GOOD + "algorithm: tpe\nsamples: 0\n", ["samples: ", "got 0", "from 1"]),
    "rung beyond the tasks": (GOOD + "early_stop: {rungs: [1, 5]}\n", ["early_stop.rungs: ", "5 tasks", "from 1 to 4"]),
    "rungs descend": (GOOD + "early_stop: {rungs: [2, 1]}\n", ["early_stop.rungs: rungs must ascend"]),
    "rung zero": (GOOD + "early_stop: {rungs: [0, 1]}\n", ["early_stop.rungs: rungs must ascend, from 1"]),
    "no rungs": (GOOD + "early_stop: {rungs: []}\n", ["early_stop.rungs: nothing is listed"]),
    "keep all": (GOOD + "early_stop: {survivors: 1}\n", ["early_stop.survivors: ", "less than 1"]),
    "early stopping by nothing": (
        changed("tau: 0.1", "matrix_probe: none") + "early_stop: on\n",
        ["early_stop: ", "matrix_probe none measures none", "leave matrix_probe out"],
    ),
    "early stopping of one stage": (
        "benchmark: seq_digits\nmethod: joint\naxes: {eta: [0.1]}\nearly_stop: on\n",
        ["early_stop: ", "joint learns all tasks at once", "off"],
    ),
    "a buffer for who has none": (
        "benchmark: seq_digits\nmethod: finetune\naxes: {eta: [0.1], buffer_size: [50]}\n",
        ["axes.buffer_size: 'buffer_size' is not a setting of method 'finetune'", "remove it"],
    ),
    "a buffer too small for its policy": (
        "benchmark: r_mnist\nmethod: gem\naxes: {eta: [0.1], buffer_size: [19, 200]}\n",
        ["axes.buffer_size: ", "buffer_size=19 is smaller than the 20 tasks of r_mnist", "at least 20"],
    ),
    "a scenario it cannot serve": (
        "benchmark: r_mnist\nmethod: icarl\naxes: {eta: [0.1]}\n",
        ["'icarl' cannot serve domain-incremental 'r_mnist'", "class-incremental"],
    ),
    "early stopping misspelt": (GOOD + "early_stop: of\n", ["early_stop: not a set of keys, got 'of'", "off, on or"]),
    "no cores": (GOOD + "resources: {cpus: 0}\n", ["resources.cpus: ", "equal to 0.01, got 0", "CPU cores"]),
    "negative GPUs": (GOOD + "resources: {gpus: -1}\n", ["resources.gpus: ", "got -1", "0.25"]),
    "a GPU and a half": (GOOD + "resources: {gpus: 1.5}\n", ["resources.gpus: more than one GPU cannot be shared"]),
    "negative retries": (GOOD + "retries: -1\n", ["retries: ", "got -1", "from 0"]),
    "retries as text": (GOOD + "retries: two\n", ["retries: ", "valid integer, got 'two'"]),
}  # fmt: skip
