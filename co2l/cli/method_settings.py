"""Every setting of a method: what it means, its default, its range, and which stages read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from co2l.cli.listing import table

if TYPE_CHECKING:
    from co2l.learning.config import Settings


def setting_rows(method: str, benchmark: str | None = None, *, where: str = "") -> list[dict[str, Any]]:
    """A row each, with the default on this benchmark; None where that is up to the benchmark."""
    from co2l.learning.methods import METHODS, configure
    from co2l.learning.setting_ranges import READ_BY, range_of

    kind = METHODS.find(method, where=where).settings_type
    defaults = dict(configure(benchmark, method).settings) if benchmark else _defaults(kind)
    return [
        {
            "setting": name,
            "default": defaults.get(name),
            "range": range_of(kind, name),
            "read by": READ_BY[kind.scope(name)],
            "meaning": field.description or name.replace("_", " "),
        }
        for name, field in kind.model_fields.items()
    ]


def settings_table(method: str, benchmark: str | None = None, *, where: str = "") -> str:
    """The same to be read."""
    rows = setting_rows(method, benchmark, where=where)
    return table([{**row, "default": "by benchmark" if row["default"] is None else row["default"]} for row in rows])


def help_on_settings(method: str, benchmark: str) -> str:
    """What stands below the help of a command that takes these settings."""
    return f"settings of {method} on {benchmark}, with their defaults there:\n{settings_table(method, benchmark)}\n"


def _defaults(kind: type[Settings]) -> dict[str, Any]:
    """Those that hold on every benchmark."""
    return {name: field.default for name, field in kind.model_fields.items() if not field.is_required()}
