"""YAML of any author: plain values, or one short error in no time."""

from __future__ import annotations

import itertools

import pytest

from co2l.errors import Co2lError
from co2l.plain_yaml import MOST, read_yaml

NAMES = list(itertools.pairwise("abcdefghi"))
NINE = {old: ", ".join([f"*{old}"] * 9) for old, _ in NAMES}
BOMB = "a: &a {k: 1}\n" + "".join(f"{new}: &{new} {{<<: [{NINE[old]}]}}\n" for old, new in NAMES)
LAUGHS = "a: &a [1, 2]\n" + "".join(f"{new}: &{new} [{NINE[old]}]\n" for old, new in NAMES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("1e-3", "1e-3"),
        ("[1, 0.5, true, null, x]", [1, 0.5, True, None, "x"]),
        ("2020-13-45", "2020-13-45"),
        ("2020-01-02", "2020-01-02"),
        ("{a: &x {b: 1}, c: {<<: *x, d: 2}}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
        (str(2**63 - 1), 2**63 - 1),
        (r'"\ud835\udf02"', "𝜂"),
        (r'"two\n\tlines"', "two\n\tlines"),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    assert read_yaml(text, "file") == value


@pytest.mark.parametrize(
    "text",
    [
        "!!int ''",
        "!!float x",
        "!!bool x",
        "!!timestamp x",
        "!!binary x",
        "!!set {a}",
        "!!python/object/apply:os.system [x]",
        "[" * 5000,
        "{a: " * 5000,
        "&a [*a]",
        "*a",
        "a: b: c",
        "{1: 2}",
        "{a: 1, a: 2}",
        "\x00",
        r'"\ud835"',
        r'"\e[31mred"',
        r'{"\x07": 1}',
        r'["\u009b31m"]',
        "1" * 5000,
        str(2**63),
        "a\n--- b",
        "x" * 10**7,
        f"[{'1,' * (MOST + 1)}]",
        BOMB,
        LAUGHS,
    ],
)
def test_nothing_else(text: str) -> None:
    with pytest.raises(Co2lError) as caught:
        read_yaml(text, "file")
    assert str(caught.value).startswith("file: ")
    assert len(caught.value.short()) < 295
