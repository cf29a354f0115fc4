"""A run exports a classifier that answers to raw images as the run did, and features with buffered examples marked."""

from __future__ import annotations

from pathlib import Path

import torch
from small_runs import CPU, SHORT, few_digits, short

from co2l.data.streams import Split, TaskStream
from co2l.learning.config import RunConfig
from co2l.learning.events import Result, RunDone, TaskDone
from co2l.learning.export import rebuild
from co2l.learning.methods import METHODS
from co2l.learning.run import run
from co2l.learning.store import Store


def evaluated(root: Path, **settings: object) -> tuple[RunConfig, TaskStream, Result, int]:
    config = short(split=Split("evaluation"), **settings)
    tasks = few_digits(config.spec, split=config.split)
    events = list(
        run(config, tasks, Store(root / "own"), device=CPU, retain=lambda _: False, exports=Store(root / "exports"))
    )
    trained = sum(event.epochs_trained for event in events if isinstance(event, TaskDone))
    (result,) = [event.result for event in events if isinstance(event, RunDone)]
    return config, tasks, result, trained


def test_the_classifier_answers_to_raw_images_as_the_run_did(tmp_path: Path) -> None:
    config, tasks, result, trained = evaluated(tmp_path)
    weights = Store(tmp_path / "exports").load_state(result.exports["classifier"])
    assert trained == 2 + 4
    assert weights is not None
    model = rebuild(METHODS["co2l"], config, weights)
    for t in range(5):
        examples = tasks.held_out(t)
        assert examples.images.dtype == torch.uint8
        probabilities = model(examples.images)
        assert torch.allclose(probabilities.sum(1), torch.ones(len(examples)))
        right = (probabilities.argmax(1) == examples.labels).sum()
        assert int(right) * (100 / len(examples)) == result.final["class_il"][t]
    again = evaluated(tmp_path)
    assert (again[2].exports, again[3]) == (result.exports, 0)  # nothing is done twice


def test_the_classifier_says_the_datasets_classes_whatever_the_order(tmp_path: Path) -> None:
    config, tasks, result, _ = evaluated(tmp_path, tasks=2, class_order="9,8,7,6,5,4,3,2,1,0")
    weights = Store(tmp_path / "exports").load_state(result.exports["classifier"])
    assert weights is not None
    model = rebuild(METHODS["co2l"], config, weights)
    plain = few_digits(split=config.split)  # classes 2t and 2t + 1 in task t
    right = sum(int((model(plain.held_out(t).images).argmax(1) == plain.held_out(t).labels).sum()) for t in range(5))
    sizes = [len(tasks.held_out(t)) for t in range(2)]
    found = sum(n * accuracy / 100 for n, accuracy in zip(sizes, result.final["class_il"], strict=True))
    assert right == round(found) > 0
    features = Store(tmp_path / "exports").load_state(result.exports["features"])
    assert features is not None
    assert torch.equal(features["tasks"], (features["labels"] < 5).long())  # 9 to 5 came first


def test_features_of_all_tasks_and_of_the_buffer(tmp_path: Path) -> None:
    _, tasks, result, _ = evaluated(tmp_path)
    found = Store(tmp_path / "exports").load_state(result.exports["features"])
    assert found is not None
    assert {len(column) for column in found.values()} == {sum(len(tasks.revisit(t)) for t in range(5)) + 20}
    assert int(found["buffered"].sum()) == SHORT["buffer_size"]
    assert found["features"].shape[1] == 64
    assert torch.equal(found["labels"] // 2, found["tasks"])  # two classes a task
    assert set(found["tasks"][found["buffered"]].tolist()) == {0, 1, 2, 3}  # what the last task could replay
    everything = {tuple(row.tolist()) for row in found["features"][~found["buffered"]]}
    assert all(tuple(row.tolist()) in everything for row in found["features"][found["buffered"]])
