"""A report as files: one HTML file, Markdown beside it, and every figure as PNG, SVG and PDF."""

from __future__ import annotations

from pathlib import Path

from co2l.errors import Co2lError
from co2l.files import write_atomic
from co2l.reporting import html, markdown
from co2l.reporting.document import Report
from co2l.reporting.drawing import pdf, svg
from co2l.search.tracking.figures import png


def files(report: Report) -> dict[str, bytes]:
    """The content of each file, by its path below the report's folder."""
    written = {"report.html": html.render(report).encode(), "report.md": markdown.render(report).encode()}
    for figure in report.figures():
        written[f"figures/{figure.name}.png"] = png(figure.drawing)
        written[f"figures/{figure.name}.svg"] = svg(figure.drawing, figure.name).encode()
        written[f"figures/{figure.name}.pdf"] = pdf(figure.drawing, figure.caption, report.command)
    return written


def write(folder: Path, content: dict[str, bytes]) -> None:
    """Write each file whole or not at all, and remove figures of an earlier report that this one does not have."""
    try:
        for name, data in content.items():
            write_atomic(folder / name, data)
        for old in (folder / "figures").glob("*.*"):
            if f"figures/{old.name}" not in content:
                old.unlink()
    except OSError as error:
        raise Co2lError(
            f"cannot be written ({error.strerror})", where=str(folder), fix="give another --output"
        ) from None
