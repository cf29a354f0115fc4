"""Rows as a plain table: aligned columns, the last one wrapped in a terminal, one line per row in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool = False) -> None:
    """Every row has the same keys."""
    print(json.dumps(rows, indent=2) if as_json else table(rows))


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Numbers stand to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in rows[0] if rows else ():
        numbers = all(isinstance(row[name], int | float) for row in rows)
        last = name == list(rows[0])[-1]
        made.add_column(name, justify="right" if numbers else "left", no_wrap=not last, overflow="fold")
    for row in rows:
        made.add_row(*(_shown(value) for value in row.values()))
    console = Console(width=None if sys.stdout.isatty() else 240, highlight=False, markup=False)
    with console.capture() as printed:
        console.print(made)
    return "\n".join(line.rstrip() for line in printed.get().splitlines())


def size(count: int) -> str:
    """Bytes in the unit that people would use."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def _shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
