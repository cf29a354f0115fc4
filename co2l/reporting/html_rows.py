"""Rows as a small HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def html_rows(rows: Sequence[Mapping[str, object]], title: str = "") -> str:
    """Every row has the same keys, which are the table's head."""
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>" for row in rows)
    above = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_pairs(pairs: Mapping[str, object], title: str = "") -> str:
    """Names and values, a row for each."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in pairs.items())
    above = f"<p><strong>{escape(title)}</strong></p>" if title else ""
    return f"{above}<table><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return escape(shown(value))


def shown(value: object) -> str:
    """A value as tables for people have it."""
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
