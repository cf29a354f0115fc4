"""A search or an evaluation in this process, with real trials and without Ray; and folders of images to learn."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from co2l.learning.events import StepDone
from co2l.search.record.study import StudyRecord
from co2l.search.running.coordinator import Coordinator
from co2l.search.running.simulation import _Nowhere
from co2l.search.running.trainable import Reporter, configured, events_of
from co2l.search.service import Options, assignments
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial

CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox")


def options_below(root: Path, data: Path) -> Options:
    here = f"sqlite:///{root}/study.db"
    return Options(root, "study", data, f"{root}/store", here, here)


def search_here(space: Space, root: Path, data: Path, *, record: StudyRecord | None = None, steps: int = -1) -> Any:
    """The record of the study, whose trials have run up to so many steps; then the driver and its trial are gone."""
    root.mkdir(parents=True, exist_ok=True)
    options = options_below(root, data)
    record = record or StudyRecord.open(options.storage, options.study, space)
    coordinator, assign = Coordinator(space, record, _Nowhere(), None, reuse=True, seed=0), assignments(space, options)
    while isinstance(trial := coordinator.next("attempt"), Trial):
        coordinator.begun("attempt")
        assignment = assign(trial)
        config = configured(assignment)
        reporter, events = Reporter(config), events_of(assignment, config)
        for event in events:
            steps -= isinstance(event, StepDone)
            if (report := reporter.report(event)) is not None:
                coordinator.received("attempt", [report])
            if steps == 0:
                events.close()
                return record
        coordinator.ended("attempt", died=False)
    return record


def write_images(folder: Path, classes: Sequence[str] = CLASSES, *, each: int = 20, seed: int = 0) -> None:
    """Gray images of 8 × 8 below train and test, each class around an image of its own."""
    rng = np.random.default_rng(seed)
    for name in classes:
        middle = rng.integers(0, 200, (8, 8))
        for part, count in (("train", each), ("test", each // 2)):
            (folder / part / name).mkdir(parents=True)
            for i in range(count):
                image = (middle + rng.integers(0, 56, (8, 8))).astype(np.uint8)
                Image.fromarray(image).save(folder / part / name / f"{i}.png")


def write_benchmark(data: Path, name: str, **keys: Any) -> str:
    """A benchmark with these images below the data root; its file's name."""
    write_images(data / f"{name}-images", seed=len(name))
    listed = ", ".join(CLASSES)
    more = "".join(f"{key}: {value}\n" for key, value in keys.items())
    text = f"classes: [{listed}]\ntasks: 3\nsize: 8\nchannels: 1\nimages: {name}-images\n{more}"
    (data / f"{name}.yaml").write_text(text)
    return f"{name}.yaml"


def remove(data: Path, name: str, classes: Sequence[str] = CLASSES) -> None:
    """These classes of the benchmark, from the disk and from what was decoded."""
    shutil.rmtree(data / "co2l-cache", ignore_errors=True)
    for part in ("train", "test"):
        for each in classes:
            shutil.rmtree(data / f"{name}-images" / part / each)
