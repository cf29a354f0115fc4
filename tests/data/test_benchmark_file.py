"""A folder of images and a YAML file are a benchmark: the same pixels, a line for every mistake, content in the key."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from small_runs import CPU, SHORT

from co2l.data.benchmarks import benchmark
from co2l.data.streams import Split, open_stream
from co2l.data.torchvision_import import torchvision
from co2l.errors import Co2lError
from co2l.learning.methods import configure
from co2l.learning.run import RunDone, run
from co2l.learning.store import Store
from co2l.search.space.space import parse

NAMES = ["ant", "bee", "cat", "dog"]
CONTENT: dict[str, Any] = {"classes": 4, "tasks": 2, "size": 8}


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """Six training images and two test images of four classes, some gray, some larger."""
    rng = np.random.default_rng(3)
    for part, n in (("train", 6), ("test", 2)):
        for name in NAMES:
            (tmp_path / "birds" / part / name).mkdir(parents=True)
            for i in range(n):
                shape = (8, 8) if i == 0 else (16, 12, 3) if i == 1 else (8, 8, 3)
                image = Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8))
                image.save(tmp_path / "birds" / part / name / f"{i}.png")
    return write(tmp_path / "birds" / "birds.yaml", CONTENT)


def write(path: Path, content: Any) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def test_its_images_are_those_that_torchvision_reads(birds: Path, tmp_path: Path) -> None:
    stream = open_stream(str(birds), split=Split("evaluation"), seed=0, data=tmp_path)
    theirs = torchvision.datasets.ImageFolder(birds.parent / "train")
    assert theirs.classes == NAMES
    ours = stream.everything()
    assert ours.labels.tolist() == theirs.targets  # two classes a task, in alphabetical order
    for i, (image, _) in enumerate(theirs):
        expected = np.asarray(image.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
        assert np.array_equal(ours.images[i].numpy(), expected)
    assert [stream.sizes(t) for t in range(2)] == [(12, 4), (12, 4)]
    named = write(birds.with_name("other.yaml"), {**CONTENT, "classes": NAMES[::-1]})
    other = open_stream(str(named), split=Split("search", 0.5), seed=0, data=tmp_path)
    assert other.benchmark.name == "other"
    assert other.fingerprint != stream.fingerprint  # dog is class 0


def test_a_search_needs_no_test_images(birds: Path, tmp_path: Path) -> None:
    shutil.rmtree(birds.parent / "test")
    open_stream(str(birds), split=Split("search"), seed=0, data=tmp_path)
    with pytest.raises(Co2lError, match="birds has no folder 'test'"):
        open_stream(str(birds), split=Split("evaluation"), seed=0, data=tmp_path)


def test_a_method_that_never_heard_of_it_learns_it(birds: Path, tmp_path: Path) -> None:
    settings = {name: SHORT[name] for name in ("buffer_size", "minibatch_size", "epochs")}
    config = configure(str(birds), "er", {**settings, "batch_size": 4}, split=Split("search", 0.25))
    events = list(run(config, config.open_stream(tmp_path), Store(tmp_path / "store"), device=CPU))
    (result,) = [event.result for event in events if isinstance(event, RunDone)]
    assert [len(row) for row in result.final.values()] == [2, 2]


def test_its_content_is_in_the_key_and_its_path_is_not(birds: Path, tmp_path: Path) -> None:
    first = configure(str(birds), "er")
    (tmp_path / "moved").mkdir()
    moved = configure(str(shutil.copy(birds, tmp_path / "moved" / "birds.yaml")), "er")
    assert (moved.key, moved.stage_keys(2)) == (first.key, first.stage_keys(2))
    changed = configure(str(write(birds, {**CONTENT, "size": 16})), "er")
    assert changed.stage_key(0) != first.stage_key(0)
    assert changed.key != first.key
    space = {"benchmark": str(birds), "method": "er", "axes": {"eta": [0.1]}}
    before = parse(space, "s").canonical()
    write(birds, {**CONTENT, "augmentation": {"flip": 0.0}})
    assert parse(space, "s").canonical()["benchmark_file"] != before["benchmark_file"]


def test_it_is_found_from_here_and_in_the_data_root(birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(birds.parent)
    assert benchmark("birds.yaml").num_classes == 4
    monkeypatch.chdir("/")
    with pytest.raises(
        Co2lError, match=r"there is no file 'birds/birds.yaml' that describes a benchmark; give its path"
    ):
        benchmark("birds/birds.yaml")
    monkeypatch.setenv("CO2L_DATA", str(birds.parent.parent))
    assert benchmark("birds/birds.yaml").image_shape == (3, 8, 8)


def test_new_images_are_noticed(birds: Path, tmp_path: Path) -> None:
    before = open_stream(str(birds), split=Split("search"), seed=0, data=tmp_path).fingerprint
    Image.new("RGB", (8, 8)).save(birds.parent / "train" / "ant" / "0.png")
    assert open_stream(str(birds), split=Split("search"), seed=0, data=tmp_path).fingerprint != before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"clases": 4, "tasks": 2, "size": 8}, "unknown key 'clases'; did you mean 'classes'?"),
        ({"classes": 4, "tasks": 2}, "the key 'size' is missing; size is: height and width"),
        ({**CONTENT, "tasks": 3}, "tasks: 4 classes cannot be cut into 3 equal tasks"),
        ({**CONTENT, "tasks": "two"}, "tasks: input should be a valid integer, got 'two'; tasks is: how many"),
        ({**CONTENT, "channels": 2}, "channels: input should be 1 or 3, got 2"),
        ({**CONTENT, "mean": [0.5]}, "mean: 1 numbers for 3 channels; give 3 numbers"),
        ({**CONTENT, "classes": ["ant", "ant", "bee", "cat"]}, "classes: a class is there twice"),
        ({**CONTENT, "augmentation": {"flop": 1}}, "unknown key 'flop'; did you mean 'flip'?"),
        ("a word", "holds no keys; it needs classes, tasks and size"),
    ],
)
def test_mistakes_in_the_file(birds: Path, content: Any, said: str) -> None:
    with pytest.raises(Co2lError) as caught:
        benchmark(str(write(birds, content)))
    assert str(caught.value).startswith(str(birds))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_in_the_folder(birds: Path, tmp_path: Path) -> None:
    def failure() -> str:
        with pytest.raises(Co2lError) as caught:
            open_stream(str(birds), split=Split("search"), seed=0, data=tmp_path)
        return str(caught.value)

    (birds.parent / "train" / "ant" / "5.png").write_bytes(b"no image")
    assert "ant/5.png: not an image or damaged" in failure()
    (birds.parent / "train" / "eel").mkdir()
    assert "train: has 5 folders of classes; birds says classes: 4" in failure()
    write(birds, {**CONTENT, "classes": ["ant", "bee", "cat", "cow"]})
    assert "train: no folder for the class 'cow'" in failure()
    write(birds, {**CONTENT, "classes": 5, "tasks": 5})
    assert "train/eel: there is no image" in failure()
