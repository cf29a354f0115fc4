"""The sender survives any line of its spool, and what follows a damaged one still arrives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow_server import wait_for

from co2l.search.tracking.outbox import Outbox

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
KEYS = st.sampled_from(["kind", "trial", "points", "tags", "status"])
KINDS = st.sampled_from(["begin", "report", "end", "study", "connect", "nonsense"])
DAMAGED = (
    VALUES
    | st.dictionaries(KEYS, VALUES)
    | st.builds(lambda kind, rest: {**rest, "kind": kind}, KINDS, st.dictionaries(KEYS, VALUES))
)
LINES = DAMAGED.map(lambda value: json.dumps(value).encode()) | st.binary()


def arrived(path: Path, content: bytes) -> list[Any]:
    """The numbers that arrive of a spool with this content and one operation more."""
    numbers: list[Any] = []

    def perform(operation: dict[str, Any], again: bool) -> None:
        if operation["kind"] == "number":
            numbers.append(operation["number"])
        elif operation["kind"] != "connect":
            raise KeyError(operation["trial"], operation["points"])

    path.write_bytes(content)
    box = Outbox(path, perform)
    box.put({"kind": "number", "number": 7})
    assert box.close(60) == 0
    return numbers


@given(lines=st.lists(LINES, min_size=1, max_size=5))
@settings(max_examples=50)
def test_any_line(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "spool.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("co2l.search.tracking.outbox.FIRST_PAUSE", 0.0)
        patch.setattr("co2l.search.tracking.outbox.TOGETHER_SECONDS", 0.0)
        assert arrived(path, b"\n".join(lines))[-1:] == [7]


@pytest.mark.parametrize(
    "line", [b"[1]", b"5", b"null", b"{}", b'{"kind":"report","trial":"a"}', b"[" * 100_000, b'{"kind":"report"}']
)
def test_a_damaged_line_that_is_valid_json(line: bytes, tmp_path: Path) -> None:
    report = b'{"kind":"report","trial":"a","points":[]}'
    assert arrived(tmp_path / "spool.jsonl", b"\n".join([report, line, report, b""])) == [7]


def test_a_spool_that_somebody_emptied(tmp_path: Path) -> None:
    """The sender looked for the end of a line for ever, and the search waited for it."""
    path, numbers = tmp_path / "spool.jsonl", []

    def perform(operation: dict[str, Any], again: bool) -> None:
        if operation["kind"] == "number":
            numbers.append(operation["number"])
            if operation["number"] == 1:
                box.put({"kind": "number", "number": 2})
                path.write_bytes(b"")

    box = Outbox(path, perform)
    box.put({"kind": "number", "number": 1})
    wait_for(lambda: bool(numbers) and box.waiting == 0)
    box.put({"kind": "number", "number": 3})
    assert box.close(60) == 0
    assert numbers == [1, 3]
