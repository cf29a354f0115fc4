"""How a configuration is written in a line of text: `eta=0.5, kappa=0.2`."""

from __future__ import annotations

from collections.abc import Mapping

from co2l.search.space.document import VARIANT


def named(values: Mapping[str, object], *, separator: str = ", ") -> str:
    """Every value after its name; a variant's name stands alone."""
    return separator.join(str(value) if name == VARIANT else f"{name}={value}" for name, value in values.items())


def shortened(values: Mapping[str, object], symbols: Mapping[str, str]) -> dict[str, str]:
    """The same values for a narrow column: names by their symbols, floats with six digits."""
    return {symbols.get(name, name): short(value) for name, value in values.items()}


def short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
