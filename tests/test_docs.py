"""The documents keep their word: links resolve, tables name every key, and the blocks marked runnable run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from co2l.search.document import PARTS, Document

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


def test_every_key_of_a_space_is_documented() -> None:
    text = (ROOT / "docs" / "search-spaces.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    for kind in (Document, *PARTS.values()):
        for name in kind.model_fields:
            assert any(f"`{name}`" in row for row in rows), f"{kind.__name__}.{name}"


RUNNABLE = [path for path in DOCUMENTS if any("runnable" in mark for _, mark, _ in blocks(path))]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: str(path.relative_to(ROOT)))
def test_runnable_blocks_run(path: Path, tmp_path: Path) -> None:
    """In a folder that has the search spaces, with the files that the document tells to save, one after the other."""
    (tmp_path / "search_spaces").symlink_to(ROOT / "search_spaces")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "OMP_NUM_THREADS": "1",
    }
    for _, mark, text in blocks(path):
        if mark.startswith("file="):
            (tmp_path / mark.removeprefix("file=")).write_text(text, encoding="utf-8")
        elif mark == "runnable":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=1200,
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def test_some_block_is_runnable() -> None:
    assert RUNNABLE, "no document has a block marked runnable: the test above would pass without running anything"
