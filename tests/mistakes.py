"""The table of docs/troubleshooting.md: each mistake and the line that answers it."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = [[text.strip() for text in line.strip("|").split(" | ")] for line in TEXT.splitlines() if line.startswith("| ")]
DOCUMENTED = {row[0]: row[2].strip("` ") for row in ROWS if len(row) == 3 and row[0] != "mistake"}


def check_documented(mistake: str, printed: str) -> None:
    """The documented answer is among the printed lines; one that begins with `co2l:` is the only such line."""
    answer = DOCUMENTED[mistake]
    pattern = ".*".join(map(re.escape, answer.split("…")))
    assert any(re.fullmatch(pattern, line) for line in printed.splitlines()), f"{answer}\n{printed}"
    assert "Traceback" not in printed
    if answer.startswith("co2l: "):
        assert printed.count("co2l: ") == 1, printed
