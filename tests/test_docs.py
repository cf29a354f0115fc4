"""The documents are right: links resolve, tables name every key, runnable blocks run, and the English is plain."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import call_here

from co2l.imports import active, drop
from co2l.search.algorithms.registry import ALGORITHMS
from co2l.search.space.document import PARTS, Document

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
FENCE = re.compile(r"^```(\S*)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def blocks(path: Path) -> list[tuple[str, str, str]]:
    """Language, mark and text of every fenced block."""
    return FENCE.findall(path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The headings of a document as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(path: Path) -> None:
    for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{path.name}: {link}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(path: Path) -> None:
    for name in re.findall(r"`((?:co2l|tests|benchmarks|cluster|docs|examples)/[\w./-]+)`", path.read_text("utf-8")):
        assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_every_key_of_a_space_is_documented() -> None:
    text = (ROOT / "docs" / "search-spaces.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    for kind in (Document, *PARTS.values()):
        for name in kind.model_fields:
            assert any(f"`{name}`" in row for row in rows), f"{kind.__name__}.{name}"


def test_every_algorithm_is_documented() -> None:
    for name in ("choosing-an-algorithm.md", "search-spaces.md"):
        rows = [line for line in (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
        for algorithm in ALGORITHMS:
            assert any(f"`{algorithm}`" in row for row in rows), f"{name}: {algorithm}"


PROSE = [
    *DOCUMENTS,
    ROOT / "docker-compose.yml",
    *(path for folder in ("search_spaces", "cluster") for path in (ROOT / folder).rglob("*.yaml")),
    *(ROOT / "co2l").glob("*.py"),
    *(path for folder in ("cli", "cluster", "reporting") for path in (ROOT / "co2l" / folder).rglob("*.py")),
]
TICS = re.compile(r"\b([Ww]hoever|shall|as a rule|is said to|of (its|their|one's) own)\b")


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_users_read_plain_english(path: Path) -> None:
    assert not (found := [line for line in path.read_text(encoding="utf-8").splitlines() if TICS.search(line)]), found


RUNNABLE = [path for path in DOCUMENTS if any("runnable" in mark for _, mark, _ in blocks(path))]


@pytest.fixture
def _imports_end() -> Iterator[None]:
    yield
    for each in active():
        drop(each.top)


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("shared_ray", "_imports_end")
@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_runnable_blocks_run(path: Path, tmp_path: Path) -> None:
    """In a folder with the search spaces and the files that the document says to save, one after the other."""
    (tmp_path / "search_spaces").symlink_to(ROOT / "search_spaces")
    for _, mark, text in blocks(path):
        if mark.startswith("file="):
            (tmp_path / mark.removeprefix("file=")).write_text(text, encoding="utf-8")
        elif mark == "runnable":
            for line in text.splitlines():
                done = ran(line, tmp_path)
                assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def ran(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a shell would do with it; our own commands run in this process, beside the Ray that it has."""
    words = shlex.split(line)
    if words[:2] == ["python", "-m"]:
        module = words[2] if words[2] != "co2l.testing" else "co2l.testing.__main__"
        return call_here(module, *words[3:], cwd=folder)
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)


def test_the_lines_that_a_plug_in_takes_are_counted() -> None:
    for name in ("adding-a-method.md", "adding-a-benchmark.md"):
        (said,) = re.findall(r"one file of (\d+) lines", (ROOT / "docs" / name).read_text(encoding="utf-8"))
        (text,) = [
            text for language, _, text in blocks(ROOT / "docs" / name) if language == "python" and "register(" in text
        ]
        assert int(said) == len(text.splitlines()), name
    text = (ROOT / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
    package = ROOT / "examples" / "plugin"
    for method, module in (("ER-ACE", "er_ace"), ("SCR", "scr")):
        lines = len((package / "co2l_example" / f"{module}.py").read_text(encoding="utf-8").splitlines())
        assert f"{method} ({lines} lines)" in text


def test_some_block_is_runnable() -> None:
    assert RUNNABLE, "no document has a block marked runnable, so the test above runs nothing"
