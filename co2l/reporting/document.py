"""What a report consists of, in any format: sections with text, tables, figures, and gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # it takes a second to import
    from matplotlib.figure import Figure as Drawing

Tone = Literal["plain", "paper", "strong", "good", "bad", "muted"]


@dataclass(frozen=True)
class Item:
    """Text in a table and its role: the paper's number, ours, a verdict."""

    text: str
    tone: Tone = "plain"
    below: str = ""  # a smaller second line
    link: str = ""  # the name of the section it links to


@dataclass(frozen=True)
class Text:
    """A paragraph. Words in `backquotes` are code; there is no other markup."""

    text: str


@dataclass(frozen=True)
class Column:
    name: str
    group: str = ""  # neighbours of the same group share a heading


@dataclass(frozen=True)
class Table:
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Item, ...], ...]
    words: int = 1  # how many leading columns hold words; the others hold numbers
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    name: str  # of its files
    caption: str
    drawing: Drawing
    alternative: str  # what it shows, for readers who cannot see it


@dataclass(frozen=True)
class Gap:
    """Something missing, and the command that fills it."""

    what: str
    command: str = ""


Block = Text | Table | Figure | Gap


@dataclass(frozen=True)
class Section:
    name: str  # unique in the report: the anchor that links use
    title: str
    blocks: tuple[Block, ...] = ()
    parts: tuple[Section, ...] = ()

    def walk(self) -> Iterator[Block]:
        yield from self.blocks
        for part in self.parts:
            yield from part.walk()

    def figures(self) -> list[Figure]:
        return [block for block in self.walk() if isinstance(block, Figure)]


@dataclass(frozen=True)
class Report:
    title: str
    about: str  # one line: what was read, and when
    sections: tuple[Section, ...]
    command: str = ""  # that makes it, and each of its figures

    def figures(self) -> list[Figure]:
        return [figure for section in self.sections for figure in section.figures()]

    def gaps(self) -> list[Gap]:
        return [block for block in self.walk() if isinstance(block, Gap)]

    def walk(self) -> Iterator[Block]:
        for section in self.sections:
            yield from section.walk()
