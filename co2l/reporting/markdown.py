"""A report as Markdown, with its figures as files beside it."""

from __future__ import annotations

from co2l.reporting.document import Block, Figure, Item, Report, Section, Table, Text


def render(report: Report) -> str:
    lines = [f"# {report.title}", "", report.about, ""]
    for each in report.sections:
        lines += section(each, 2)
    lines += [f"Made by `{report.command}`"] if report.command else []
    return "\n".join(lines).rstrip() + "\n"


def section(one: Section, level: int, *, figures: str = "figures/") -> list[str]:
    """Its lines; `figures` is the folder of its figures, or empty if they are beside the page, and without PDF."""
    lines = [f'<a id="{one.name}"></a>', "", f"{'#' * level} {one.title}", ""]
    for block in one.blocks:
        lines += [*_block(block, figures), ""]
    for part in one.parts:
        lines += section(part, level + 1, figures=figures)
    return lines


def _block(block: Block, figures: str) -> list[str]:
    if isinstance(block, Text):
        return [block.text]
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Figure):
        paper = f" ([PDF]({figures}{block.name}.pdf))" if figures else ""
        return [f"![{block.alternative}]({figures}{block.name}.png)", "", f"{block.caption}{paper}"]
    command = f" To fill it: `{block.command}`" if block.command else ""
    return [f"> **Gap.** {block.what}{command}"]


def _table(table: Table) -> list[str]:
    names = [f"{column.group}: {column.name}" if column.group else column.name for column in table.columns]
    rules = ["---" if i < table.words else "---:" for i in range(len(names))]
    rows = [names, rules, *([_item(item) for item in row] for row in table.rows)]
    notes = [f"- {note}" for note in table.notes]
    lines = [f"**{table.caption}**", "", *(f"| {' | '.join(row)} |" for row in rows)]
    return [*lines, "", *notes] if notes else lines


def _item(item: Item) -> str:
    text = item.text.replace("|", r"\|")
    if item.link:
        text = f"[{text}](#{item.link})"
    if text:
        text = {"paper": f"*{text}*", "strong": f"**{text}**"}.get(item.tone, text)
    return f"{text} ({item.below})" if item.below else text
