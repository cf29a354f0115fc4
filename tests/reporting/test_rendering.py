"""The same content as HTML and as Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Drawing

from co2l.reporting import html, markdown
from co2l.reporting.document import Column, Figure, Gap, Item, Report, Section, Table, Text
from co2l.reporting.publish import files, write


def drawing() -> Drawing:
    figure = Drawing(figsize=(2, 2))
    figure.subplots().plot([1, 2], [3, 4], marker="o", label="line")
    return figure


@pytest.fixture
def report() -> Report:
    columns = (Column("row"), Column("ours", "Class-IL"), Column("paper", "Class-IL"))
    rows = ((Item("<a> & b|c"), Item("1.00 ± 0.10", "strong", below="[0.9, 1.1]"), Item("2.00", "paper")),)
    table = Table("A caption with `code`", columns, rows, notes=("A note.",))
    figures = (Figure("first", "One.", drawing(), "a rising line"), Figure("second", "Two.", drawing(), 'say "two"'))
    return Report(
        "A <title>",
        "About.",
        (
            Section("whole", "Whole", (Text("Plain `x < y` text."), table, *figures)),
            Section("holes", "Holes", (), (Section("hole", "Hole", (Gap("Nothing here.", "python -m co2l.tune"),)),)),
        ),
        "python -m co2l.report --root runs",
    )


class Page(HTMLParser):
    """Collects what a page refers to, and that its tags are closed."""

    void = frozenset({"meta", "link", "br", "img", "path", "use", "rect", "circle"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag


def test_the_page_needs_nothing_else(report: Report) -> None:
    text = html.render(report)
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text


def test_every_link_in_the_page_leads_somewhere(report: Report) -> None:
    page = Page(html.render(report))
    assert len(page.ids) == len(set(page.ids))  # two figures beside each other do not share names
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_text_stays_text(report: Report) -> None:
    text = html.render(report)
    assert "<title>A &lt;title&gt;</title>" in text
    assert "&lt;a&gt; &amp; b|c" in text
    assert "<code>x &lt; y</code>" in text
    assert 'aria-label="say &quot;two&quot;"' in text


def test_a_gap_is_marked_and_says_the_command(report: Report) -> None:
    text = html.render(report)
    assert '<b>Gap.</b>Nothing here.<code class="command">python -m co2l.tune</code>' in text
    assert text.count('class="mark"') == 2  # in the contents: the section, and the part of it
    assert report.gaps() == [Gap("Nothing here.", "python -m co2l.tune")]


def test_markdown_has_the_same_content(report: Report) -> None:
    lines = markdown.render(report).splitlines()
    assert lines[0] == "# A <title>"
    assert "| row | Class-IL: ours | Class-IL: paper |" in lines
    assert r"| <a> & b\|c | **1.00 ± 0.10** ([0.9, 1.1]) | *2.00* |" in lines
    assert "![a rising line](figures/first.png)" in lines
    assert "> **Gap.** Nothing here. To fill it: `python -m co2l.tune`" in lines


def test_figures_are_files_for_a_page_and_for_a_paper(report: Report, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "of_an_earlier_report.png").write_bytes(b"")
    content = files(report)
    write(tmp_path, content)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    drawn = {f"figures/{name}.{kind}" for name in ("first", "second") for kind in ("png", "svg", "pdf")}
    assert found == {"report.html", "report.md", *drawn}
    assert (tmp_path / "figures" / "first.png").read_bytes().startswith(b"\x89PNG")
    assert files(report) == content  # the same report is the same bytes
    paper = (tmp_path / "figures" / "first.pdf").read_bytes()
    assert paper.startswith(b"%PDF")
    assert b"python -m co2l.report --root runs" in paper
    assert b"/Subtype /Type3" not in paper, "publishers refuse such fonts"


def test_every_figure_says_what_made_it(report: Report) -> None:
    page = html.render(report)
    for name in ("first", "second"):
        assert f"<code>figures/{name}.pdf</code>, made by <code>python -m co2l.report --root runs</code>" in page
