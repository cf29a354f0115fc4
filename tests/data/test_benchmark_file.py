"""A folder of images and a YAML file are a benchmark: the same pixels, a line for every mistake, content in the key."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from commands import call_here, refusal_of
from PIL import Image
from small_runs import CPU, SHORT

from co2l.data.benchmarks import benchmark
from co2l.data.root import data_below
from co2l.data.streams import Split, open_stream
from co2l.data.torchvision_import import torchvision
from co2l.errors import Co2lError
from co2l.learning.methods import configure
from co2l.learning.run import RunDone, run
from co2l.learning.store import Store
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
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


def test_commands_look_below_the_data_root_that_they_are_given(
    birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import co2l.search.running.local_ray
    import co2l.search.service as service

    elsewhere, data = tmp_path / "elsewhere", ["--data", str(tmp_path)]
    elsewhere.mkdir()
    space = {"benchmark": "birds/birds.yaml", "method": "er", "settings": {"epochs": 1}, "axes": {"eta": [0.1, 0.2]}}
    write(elsewhere / "own.yaml", space)

    def found(module: str, *words: str) -> Any:
        line = refusal_of(call_here(module, *words, cwd=elsewhere))
        assert "there is no file 'birds/birds.yaml' that describes a benchmark" in line
        assert line.endswith("give its path as seen from here, from --data or from $CO2L_DATA")
        done = call_here(module, *words, *data, cwd=elsewhere)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    short = ["--set", "epochs=1", "--set", "batch_size=4", "--set", "buffer_size=8", "--validation", "0.25"]
    trained = found("co2l.train", "--benchmark", "birds/birds.yaml", "--method", "er", *short, "--json")
    assert trained["config"]["benchmark"] == "birds/birds.yaml"  # wherever that is
    planned = ["--space", "own.yaml", "--plan", "--json"]
    assert found("co2l.tune", *planned)["trials"] == 2
    assert found("co2l.evaluate", *planned)["together"]["trials"] == 2 * 10
    monkeypatch.setattr(co2l.search.running.local_ray, "early_ray", lambda *_: contextlib.nullcontext())

    def search(space: Any, options: service.Options, *_: Any) -> None:
        assigned = service.assignments(space, options)(space.any_trial())
        assert (assigned.config["benchmark"], assigned.data) == (str(birds), str(tmp_path))
        raise Co2lError("a worker would find it")

    monkeypatch.setattr(service, "search", search)
    line = refusal_of(call_here("co2l.tune", "--space", "own.yaml", "--quiet", *data, cwd=elsewhere))
    assert line == "co2l: a worker would find it"
    refusal_of(call_here("co2l.tune", *planned, cwd=elsewhere))  # it counts for that command alone


def test_a_study_whose_benchmark_is_not_found_says_where_it_is_looked_for(
    birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    with data_below(tmp_path):
        space = parse({"benchmark": "birds/birds.yaml", "method": "er", "axes": {"eta": [0.1]}}, "s")
        StudyRecord.open(url, "s", space)
        assert StudyReader(url).study("s").space.digest == space.digest
    with pytest.raises(
        Co2lError, match=r"study 's': benchmark: there is no file 'birds/birds.*; give its path as seen"
    ):
        StudyReader(url).study("s")
