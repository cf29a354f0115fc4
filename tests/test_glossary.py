"""One word per thing: no file uses a word that the glossary replaced."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = Path("docs/glossary.md")
# Jupyter's words are its own
NOTEBOOKS = {Path("examples/first_search.ipynb"), Path("tests/e2e/test_example_notebook.py")}
EXEMPT = {GLOSSARY, Path("CHANGELOG.md"), *NOTEBOOKS}


def replaced() -> list[str]:
    """The words in the third column, each in backquotes."""
    rows = [line.split("|") for line in (ROOT / GLOSSARY).read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return [word for row in rows[2:] for word in re.findall(r"`([^`]+)`", row[3])]


@cache
def texts() -> dict[Path, str]:
    """Every tracked text file that the glossary governs; this test names old words, so it is exempt too."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = {Path(name) for name in tracked.split("\0") if name} - EXEMPT - {Path(__file__).relative_to(ROOT)}
    found = {}
    for path in sorted(paths):
        if (ROOT / path).is_file() and b"\0" not in (content := (ROOT / path).read_bytes()):
            found[path] = content.decode("utf-8")
    return found


def uses(pattern: str, *folders: str) -> list[str]:
    """Where a pattern occurs, as path:line: text."""
    return [
        f"{path}:{number}: {line.strip()}"
        for path, text in texts().items()
        if not folders or any(path.is_relative_to(folder) for folder in folders)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]


def whole(word: str) -> str:
    """A word not inside another one; a hyphen joins words."""
    return rf"(?<![\w-]){re.escape(word)}" + (r"(?![\w-])" if re.match(r"\w", word[-1]) else "")


@pytest.mark.parametrize("word", replaced())
def test_no_file_uses_a_word_that_was_replaced(word: str) -> None:
    assert not (found := uses(whole(word))), "\n".join(found)


@pytest.mark.parametrize(
    ("pattern", "folders"),
    [
        (r"\b[Ss]amples?\b", ("co2l/data", "co2l/learning")),  # an image with its label is an example
        (r"\bprice", ("co2l/data", "co2l/learning", "co2l/search/record", "co2l/search/running")),  # money is planned
        (r"\bkeep: *[\d.]", ()),  # in YAML: the survivors of a rung
        (r"\bkeep(=|: \w+[],)\[ ]| = Field)", ("co2l",)),  # what is retained in the store
        (r"\bprobe\b", ("co2l/cluster", "co2l/search/space/plan.py")),  # what is tried or timed is no linear evaluation
    ],
)
def test_a_word_with_several_uses_has_one_in_code(pattern: str, folders: tuple[str, ...]) -> None:
    assert not (found := uses(pattern, *folders)), "\n".join(found)


def test_old_words_are_found_where_they_are_used() -> None:
    """The glossary is exempt because it names them: searched by the same rule, it has every one."""
    text = (ROOT / GLOSSARY).read_text(encoding="utf-8")
    assert len(replaced()) > 20
    assert all(re.search(whole(word), text) for word in replaced())
    assert not re.search(whole("place"), "placeholder, in-place, replaced, placed")
