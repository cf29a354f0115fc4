"""What the tests of the datasets share: a failed reading, and ways to damage a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from co2l.data.sources import load
from co2l.errors import Co2lError


def failure(source: str, part: str, root: Path) -> str:
    with pytest.raises(Co2lError) as raised:
        load(source, part, root)
    line = str(raised.value)
    assert "\n" not in line
    return line


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scribble(file: Path) -> None:
    file.write_bytes(b"<html>404</html>" * 20)
