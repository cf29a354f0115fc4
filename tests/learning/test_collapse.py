"""Dead features are counted, stored with the stage, reported, and warned of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import few_digits, finish, short, start

from co2l.data.benchmarks import benchmark
from co2l.learning.collapse import COLLAPSED, collapse, dead_features
from co2l.learning.encoders import build_encoder, initialised
from co2l.learning.events import RunDone, TaskDone
from co2l.learning.methods.finetune import Finetune
from co2l.search.running.trainable import Reporter


def digits_encoder(bias: list[float]) -> Any:
    encoder: Any = initialised(lambda: build_encoder("digits_conv", (1, 8, 8), 64), 0)
    with torch.no_grad():
        encoder.fc.bias[: len(bias)] = torch.tensor(bias)
    return encoder


def test_counts_what_is_the_same_for_every_image() -> None:
    """A unit with a bias of -1000 never opens; counted here image by image, for units that no image opens anyway."""
    task = few_digits().train(0)
    encoder = digits_encoder([-1000.0] * 16).train()
    opened = torch.zeros(64, dtype=torch.bool)
    for image in task.images:
        opened |= encoder(image[None].float() / 255)[0] > 0
    assert not opened[:16].any()
    found = dead_features(encoder, task, benchmark("seq_digits"))
    assert found == pytest.approx(100 * (64 - int(opened.sum())) / 64)
    assert encoder.training


def test_a_collapse_is_one_line() -> None:
    assert collapse([None, 20.0, COLLAPSED - 0.1]) is None
    line = collapse([10.0, 92.0, 95.0])
    assert line is not None
    assert line.startswith("92% of the encoder's features are dead after task 2: the representation collapsed; ")


@pytest.mark.parametrize("method", ["co2l", "er", "joint"])
def test_a_run_measures_every_task_and_a_reused_stage_has_the_same(method: str, tmp_path: Path) -> None:
    first, _ = finish(short(method), tmp_path)
    again = list(start(short(method), tmp_path))
    (done,) = [event.result for event in again if isinstance(event, RunDone)]
    assert len(first.dead) == 5
    assert all(share is not None and 0 <= share < 100 for share in first.dead)
    assert done == first
    assert [event.dead for event in again if isinstance(event, TaskDone)] == list(first.dead)
    assert first.as_dict()["dead_features"] == list(first.dead)


@pytest.mark.parametrize("lost", ["nothing", "what was measured without a probe"])
def test_it_is_the_same_whoever_trained_the_stages_and_whatever_was_lost(lost: str, tmp_path: Path) -> None:
    """Another trial may have other probes, and a killed one may have saved its state and nothing else."""
    other, config = short("co2l", probe_epochs=3), short("co2l")
    finish(other, tmp_path / "shared", retain=lambda _: True)
    if lost != "nothing":
        for key in other.stage_keys(5):
            (path,) = (tmp_path / "shared").glob(f"*/{other.dead_key(key)}.json")
            path.unlink()
    found, trained = finish(config, tmp_path / "shared", retain=lambda _: True)
    assert found == finish(config, tmp_path / "alone")[0]
    assert sum(trained) == 0


def test_a_run_whose_features_die_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third task drives every unit shut; the metric reports it from there on."""
    learn = Finetune.learn

    def killing(self: Any, *args: Any) -> Any:
        losses = learn(self, *args)
        if self.t >= 2:
            self.network.encoder.fc.bias.data.fill_(-1000.0)
        return losses

    monkeypatch.setattr(Finetune, "learn", killing)
    config = short("finetune")
    reporter, metrics = Reporter(config), []
    for event in start(config, tmp_path):
        report = reporter.report(event)
        if isinstance(event, TaskDone) and report is not None:
            metrics.append(report.metrics["dead_features"])
        if isinstance(event, RunDone):
            result = event.result
    assert [share == 100 for share in metrics] == [False, False, True, True, True]
    assert "100% of the encoder's features are dead after task 3" in str(collapse(result.dead))
