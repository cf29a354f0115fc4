"""A report as one self-contained HTML file: no network, no scripts, light or dark like the reader's system."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from html import escape
from importlib import resources

from co2l.reporting.document import Figure, Gap, Item, Report, Section, Table, Text
from co2l.reporting.drawing import svg

LONG = 42  # characters; longer items may wrap


def render(report: Report) -> str:
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    body = "\n".join(_section(section, 2, report.command) for section in report.sections)
    title = escape(report.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<nav aria-label="contents">
<strong>{title}</strong>
{_contents(report.sections)}
</nav>
<main>
<header><h1>{title}</h1><p>{_inline(report.about)}</p></header>
{body}
</main>
</body>
</html>
"""


def _contents(sections: Iterable[Section]) -> str:
    items = []
    for section in sections:
        gap = any(isinstance(block, Gap) for block in section.walk())
        mark = ' <span class="mark" title="something is missing here">○</span>' if gap else ""
        inner = _contents(section.parts) if section.parts else ""
        items.append(f'<li><a href="#{escape(section.name)}">{escape(section.title)}{mark}</a>{inner}</li>')
    return f"<ul>{''.join(items)}</ul>"


def _section(section: Section, level: int, command: str) -> str:
    parts = [f'<section id="{escape(section.name)}">', f"<h{level}>{escape(section.title)}</h{level}>"]
    parts += [_figure(block, command) if isinstance(block, Figure) else _block(block) for block in section.blocks]
    parts += [_section(part, level + 1, command) for part in section.parts]
    return "\n".join([*parts, "</section>"])


def _figure(figure: Figure, command: str) -> str:
    drawn = svg(figure.drawing, figure.name, inline=True)
    label = escape(figure.alternative)
    drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    made = f"<code>figures/{escape(figure.name)}.pdf</code>, made by <code>{escape(command)}</code>" if command else ""
    below = f"<small>{made}</small>" if made else ""
    return f"<figure>{drawn}<figcaption>{_inline(figure.caption)}{below}</figcaption></figure>"


def _block(block: Text | Table | Gap) -> str:
    if isinstance(block, Text):
        return f"<p>{_inline(block.text)}</p>"
    if isinstance(block, Table):
        return _table(block)
    command = f'<code class="command">{escape(block.command)}</code>' if block.command else ""
    return f'<div class="gap" role="note"><b>Gap.</b>{_inline(block.what)}{command}</div>'


def _table(table: Table) -> str:
    lines = ['<div class="table"><table>', f"<caption>{_inline(table.caption)}</caption>", "<thead>"]
    if any(column.group for column in table.columns):
        groups = [(name, len(list(same))) for name, same in itertools.groupby(table.columns, lambda each: each.group)]
        items = [f'<th colspan="{n}"{_class("group" if name else "")}>{_inline(name)}</th>' for name, n in groups]
        lines.append(f"<tr>{''.join(items)}</tr>")
    names = [
        f'<th scope="col"{_class("word" if i < table.words else "")}>{_inline(column.name)}</th>'
        for i, column in enumerate(table.columns)
    ]
    lines += [f"<tr>{''.join(names)}</tr>", "</thead>", "<tbody>"]
    before = None
    for row in table.rows:
        begins = before is not None and row[0].text not in ("", before)
        before = row[0].text or before
        items = [_item(item, word=i < table.words) for i, item in enumerate(row)]
        lines.append(f"<tr{_class('begins' if begins else '')}>{''.join(items)}</tr>")
    lines += ["</tbody></table></div>"]
    if table.notes:
        lines.append(f'<ul class="notes">{"".join(f"<li>{_inline(note)}</li>" for note in table.notes)}</ul>')
    return "\n".join(lines)


def _item(item: Item, *, word: bool) -> str:
    long = word and len(item.text) > LONG
    marks = ["word" if word else "", "long" if long else "", "" if item.tone == "plain" else item.tone]
    names = " ".join(filter(None, marks))
    text = _inline(item.text)
    if item.link:
        text = f'<a href="#{escape(item.link)}">{text}</a>'
    below = f"<small>{_inline(item.below)}</small>" if item.below else ""
    return f"<td{_class(names)}>{text}{below}</td>"


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
