"""docs/architecture.md names functions that exist, and its walks go forward: no module is left and entered again."""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path
from pkgutil import resolve_name
from types import CodeType, FrameType

import pytest
import torch

from co2l.data.streams import Split, open_stream
from co2l.learning.events import StepDone
from co2l.learning.methods import configure
from co2l.learning.run import run
from co2l.learning.store import Store

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = {
    title: re.findall(r"^\d+\. `(co2l\.[\w.]+)`", section, re.MULTILINE)
    for title, section in re.findall(r"^## (One [^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
NAMES = sorted(set(re.findall(r"`(co2l\.[\w.]+)`", TEXT)))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str) -> None:
    """Where it is defined, not where it is only imported."""
    found = resolve_name(name)
    assert f"{found.__module__}.{found.__qualname__}" == name


def test_both_walks_are_found() -> None:
    assert [len(hops) >= 10 for hops in WALKS.values()] == [True, True]


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_never_goes_back(title: str) -> None:
    modules = [module for module, _ in groupby(resolve_name(name).__module__ for name in WALKS[title])]
    assert len(modules) == len(set(modules)), modules


def test_a_batch_really_takes_this_walk(small_data: Path, tmp_path: Path) -> None:
    """The first calls of the hops, in one step of a run on images that are read from disk."""
    settings = {"encoder": "resnet18", "width": 16, "batch_size": 8, "E_0": 1, "E_t": 1, "matrix_probe": "none"}
    split = Split("search", fraction=0.1)
    hops: dict[CodeType, str] = {resolve_name(name).__code__: name for name in WALKS["One batch, from disk to weights"]}
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = hops.get(frame.f_code) if event == "call" else None
        if name and name not in called:
            called.append(name)

    sys.setprofile(note)
    try:
        config = configure("seq_cifar10", "co2l", settings, seed=0, split=split)
        tasks = open_stream("seq_cifar10", split=split, seed=0, data=small_data)
        for event in run(config, tasks, Store(str(tmp_path)), device=torch.device("cpu")):
            if isinstance(event, StepDone):
                break
    finally:
        sys.setprofile(None)
    assert called == list(hops.values())
