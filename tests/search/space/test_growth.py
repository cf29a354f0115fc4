"""A study grows by what plug-ins add, as long as what it was started with comes from the very same source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_plugins import METHOD, REGISTER_METHOD, forget, write_benchmark, write_package
from spaces import finish

from co2l.errors import Co2lError
from co2l.search.record.reader import StudyReader
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import Space, parse

ENCODER = """
from co2l.learning.encoders import ENCODERS

ENCODERS.register("short_mlp", lambda shape, width: ENCODERS["mnist_mlp"](shape, width))
"""


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    forget()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def space_of(tried: list[str], *imports: str, **keys: Any) -> Space:
    document = {"benchmark": "seq_digits", "settings": {"epochs": 2}, "axes": {"method": tried}}
    return parse({**document, "imports": list(imports), **keys}, "space.yaml")


def refusal(url: str, space: Space) -> str:
    with pytest.raises(Co2lError) as caught:
        StudyRecord.open(url, "s", space)
    return str(caught.value)


def test_a_method_of_a_new_plug_in_is_growth(url: str, tmp_path: Path) -> None:
    first = space_of(["er"])
    finish(StudyRecord.open(url, "s", first), next(first.trials()))
    own = write(tmp_path, "own.py", METHOD + REGISTER_METHOD)
    larger = space_of(["er", "weighted"], own)
    record = StudyRecord.open(url, "s", larger)
    assert [record.status(trial) for trial in larger.trials()] == ["done", "pending"]
    assert record.identity == first.digest
    other = write(tmp_path, "other.py", (METHOD + REGISTER_METHOD).replace('"weighted"', '"heavy"'))
    largest = space_of(["er", "weighted", "heavy"], own, other)
    assert len(largest.canonical()["plugins"]) == 2
    assert [StudyRecord.open(url, "s", largest).status(each) for each in largest.trials()].count("done") == 1
    assert StudyReader(url).study("s").space.methods_tried == ("er", "weighted", "heavy")


def test_another_source_of_a_former_method_is_refused(url: str, tmp_path: Path) -> None:
    text = METHOD + REGISTER_METHOD
    own = write(tmp_path, "own.py", text)
    StudyRecord.open(url, "s", space_of(["weighted"], own))
    write(tmp_path, "own.py", text.replace("weight of replayed", "weight of all replayed"))
    for methods in (["weighted"], ["weighted", "er"]):
        assert "was started with another space (" in (said := refusal(url, space_of(methods, own)))
        assert "plugins: [" in said
    other = write(tmp_path, "other.py", text.replace('"weighted"', '"heavy"'))
    assert "plugins: [" in refusal(url, space_of(["weighted", "heavy"], own, other))


def test_a_former_name_that_comes_from_elsewhere_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though all former plug-ins are still in use, unchanged: the package now for the benchmark alone."""
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site")))
    forget()
    before = space_of(["weighted"], benchmark="stripes")
    StudyRecord.open(url, "s", before)
    formerly = set(before.canonical()["plugins"])
    own = write(tmp_path, "own.py", METHOD + REGISTER_METHOD)
    moved = space_of(["weighted", "er"], own, benchmark="stripes")
    assert formerly < set(moved.canonical()["plugins"])
    assert "plugins: [" in refusal(url, moved)


def test_a_benchmark_that_comes_from_elsewhere_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site")))
    forget()
    StudyRecord.open(url, "s", space_of(["weighted"], benchmark="stripes"))
    moved = space_of(["weighted", "er"], str(write_benchmark(tmp_path)), benchmark="stripes")
    assert "plugins: [" in refusal(url, moved)


def test_an_encoder_of_a_new_plug_in_is_growth(url: str, tmp_path: Path) -> None:
    axes = {"method": ["er"], "encoder": ["digits_conv"]}
    first = space_of([], axes=axes)
    finish(StudyRecord.open(url, "s", first), next(first.trials()))
    larger = space_of([], write(tmp_path, "own.py", ENCODER), axes={**axes, "encoder": ["short_mlp", "digits_conv"]})
    record = StudyRecord.open(url, "s", larger)
    assert [record.status(trial) for trial in larger.trials()] == ["pending", "done"]


def test_an_encoder_that_one_method_alone_has_counts(tmp_path: Path) -> None:
    own = write(tmp_path, "own.py", ENCODER)
    space = space_of(["er", "derpp"], own, methods={"derpp": {"encoder": "short_mlp"}})
    assert [each.split()[0] for each in space.canonical()["plugins"]] == ["own"]
