"""Where a report goes: one HTML file, Markdown beside it, and every figure as PNG and SVG."""

from __future__ import annotations

from pathlib import Path

from co2l.errors import Co2lError
from co2l.reporting import html, markdown
from co2l.reporting.document import Report
from co2l.reporting.drawing import svg
from co2l.search.figures import png


def files(report: Report) -> dict[str, bytes]:
    """By their path below the report's folder."""
    written = {"report.html": html.render(report).encode(), "report.md": markdown.render(report).encode()}
    for figure in report.figures():
        written[f"figures/{figure.name}.png"] = png(figure.drawing)
        written[f"figures/{figure.name}.svg"] = svg(figure.drawing, figure.name).encode()
    return written


def write(folder: Path, content: dict[str, bytes]) -> None:
    """Each file whole or not at all. Figures of an earlier report that this one does not have are removed."""
    try:
        for name, data in content.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.new")
            new.write_bytes(data)
            new.replace(path)
        for old in (folder / "figures").glob("*.*"):
            if f"figures/{old.name}" not in content:
                old.unlink()
    except OSError as error:
        raise Co2lError(
            f"cannot be written ({error.strerror})", where=str(folder), fix="give another --output"
        ) from None
