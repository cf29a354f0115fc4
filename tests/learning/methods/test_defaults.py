"""Defaults fall back: a method's own, then what suits the benchmark, then what was published for the two of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import finish

from co2l.data.augmentation import Augmentation
from co2l.data.benchmarks import BENCHMARKS, Benchmark, benchmark
from co2l.data.cache import in_memory
from co2l.data.streams import TaskStream
from co2l.learning.methods import METHODS, configure
from co2l.learning.methods.er import ER

# The content keys of every method with its defaults on every benchmark, as they were before defaults could fall back.
# They hold all settings: a default that changes would silently give other runs than those in the record.
FROZEN = {
    "seq_cifar10": {
        "co2l": "ac6bd2a0c0f8", "joint": "9de82ea0348e", "finetune": "8942cc7228bd", "er": "79e2d196a319",
        "gem": "201bbaf60e46", "agem": "0eea4eb59744", "icarl": "7de088708bda", "fdr": "0608f8402d7f",
        "gss": "5238ab553459", "hal": "4b3687ee7c39", "der": "9e28570a94de", "derpp": "5808c2d990fc",
    },
    "seq_tiny_imagenet": {
        "co2l": "ee6b407624cc", "joint": "c8e5cdfa2e07", "finetune": "39a864932b9b", "er": "ffaef3ea355e",
        "gem": "0646065c3cf0", "agem": "894e0c0d4f4b", "icarl": "b2e1f6fe8f3c", "fdr": "470d3daa2f68",
        "gss": "40af44b1071b", "hal": "e6a57a52f317", "der": "f60621668b76", "derpp": "0139da1e1ffc",
    },
    "r_mnist": {
        "co2l": "efb09478f6b1", "joint": "5b5c6bc8dc45", "finetune": "f81029347d15", "er": "f46e1dcc2932",
        "gem": "40d560ca16a6", "agem": "8dee9f6f8024", "fdr": "62b91d674053", "gss": "63ba33113246",
        "hal": "5639701b460c", "der": "1d05f650792f", "derpp": "b0e3cd2065fc",
    },
    "seq_digits": {
        "co2l": "499db8f1d5bd", "joint": "550dd2f2bc81", "finetune": "dcf7c125a737", "er": "8224db1023a6",
        "gem": "8ad3636a3f57", "agem": "b8debb48f21c", "icarl": "7feb9f9edd44", "fdr": "365dfcc676ca",
        "gss": "5942b5916c93", "hal": "10b31b45483e", "der": "0c2e99fa6968", "derpp": "9e91049c0cf1",
    },
    "r_digits": {
        "co2l": "74ed8a85baa9", "joint": "631b287afcc4", "finetune": "ea6addcf3932", "er": "be8af8e259c0",
        "gem": "66d065e99dcb", "agem": "b94278532d31", "fdr": "6189e1cf73ee", "gss": "4a780e5b382d",
        "hal": "5d446b75d85d", "der": "04bb82cf429a", "derpp": "4c8c9c567646",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FROZEN)
def test_no_default_has_changed(name: str) -> None:
    found = {
        method: configure(name, method).key[:12]
        for method in METHODS.own()
        if benchmark(name).scenario in METHODS[method].scenarios
    }
    assert found == FROZEN[name]


def unheard_of(side: int, channels: int = 1, **keys: object) -> Benchmark:
    """A benchmark that no table knows."""
    few = Benchmark(
        name="unheard_of",
        source="none",
        scenario="class",
        tasks=2,
        classes_per_task=2,
        num_classes=4,
        image_shape=(channels, side, side),
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
        augmentation=Augmentation(crop_scale=(0.7, 1.0)),
        examples=80,
    )
    return replace(few, **keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS.own())
@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_a_method_runs_where_it_has_never_been(
    method: str, scenario: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With nothing set but how long it learns."""
    if scenario not in METHODS[method].scenarios:
        pytest.skip("it does not serve this scenario")
    few = unheard_of(12, scenario=scenario, classes_per_task=2 if scenario == "class" else 4)
    monkeypatch.setitem(BENCHMARKS, "unheard_of", few)
    lengths = {"epochs": 1, "E_0": 1, "E_t": 1, "probe_epochs": 1}
    own = METHODS[method].settings_type.model_fields
    config = configure("unheard_of", method, {name: value for name, value in lengths.items() if name in own})
    rng = np.random.default_rng(0)
    arrays = in_memory(rng.integers(0, 256, (80, 1, 12, 12), np.uint8), np.repeat(np.arange(4), 20))
    result, trained = finish(config, tmp_path, TaskStream(few, config.split, 0, arrays, None))
    assert sum(trained) > 0
    assert 0 <= result.score <= 100


@pytest.mark.parametrize(
    ("side", "encoder"), [(8, "digits_conv"), (28, "mnist_conv"), (32, "resnet18"), (96, "resnet18")]
)
def test_the_encoder_follows_from_the_size_of_images(side: int, encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "unheard_of", unheard_of(side, 3))
    assert configure("unheard_of", "er").settings.encoder == encoder


def test_what_suits_the_benchmark_comes_before_the_methods_own_and_after_what_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = unheard_of(8, defaults={"epochs": 7, "eta": 0.07, "E_0": 9})
    monkeypatch.setitem(BENCHMARKS, "unheard_of", chosen)
    er, co2l = configure("unheard_of", "er").settings, configure("unheard_of", "co2l").settings
    assert (er.model_dump()["epochs"], er.eta) == (7, 0.07)
    assert (co2l.model_dump()["E_0"], co2l.eta, co2l.model_dump()["E_t"]) == (9, 0.07, 20)
    assert configure("unheard_of", "er", {"eta": 0.5}).settings.eta == 0.5
    monkeypatch.setitem(BENCHMARKS, "r_mnist", replace(benchmark("r_mnist"), defaults={"eta": 0.07}))
    assert configure("r_mnist", "gss").settings.eta == 0.2  # the paper's


def test_a_batch_is_at_most_an_eighth_of_the_first_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "unheard_of", unheard_of(8))
    assert configure("unheard_of", "er").settings.batch_size == 5
    monkeypatch.setitem(BENCHMARKS, "unheard_of", unheard_of(8, examples=0))  # not known
    assert configure("unheard_of", "er").settings.batch_size == 32


def test_a_method_derived_from_another_does_not_inherit_what_was_published_for_that() -> None:
    class Other(ER):
        name = "other"

    assert "eta" in ER.defaults(benchmark("r_mnist"))
    assert "eta" not in Other.defaults(benchmark("r_mnist"))
    assert Other.defaults(benchmark("r_mnist"))["epochs"] == 1
