"""Which values a setting may have and which stages read it, in words, from its declaration."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Optional, get_args, get_origin

from co2l.learning.config import Scope, Settings

READ_BY = {Scope.EVERY: "every task", Scope.FIRST: "task 1", Scope.LATER: "task 2 on", Scope.PROBE: "evaluation"}
_EITHER = types.UnionType, get_origin(Optional[int])  # noqa: UP045  Python has two types for `A | B`
_BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}  # as pydantic's constraints are called


def range_of(settings: type[Settings], name: str) -> str:
    """As `> 0`, `≥ 0, < 1`, `true, false` or `supcon, cross_entropy`."""
    field = settings.model_fields[name]
    return ", ".join(_values(field.annotation, field.metadata))


def _values(annotation: Any, metadata: Iterable[Any]) -> list[str]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return _values(inner, [*metadata, *more])
    if origin in _EITHER:
        return [text for part in get_args(annotation) for text in _values(part, metadata)]
    if origin is Literal:
        return [str(value) for value in get_args(annotation)]
    if annotation is bool:
        return ["true", "false"]
    bounds = [text for each in metadata for text in _bounds(each)]
    if bounds:
        return bounds
    return [{int: "whole number", float: "number", str: "name"}.get(annotation, str(annotation))]


def _bounds(constraint: Any) -> list[str]:
    inner = [text for each in getattr(constraint, "metadata", ()) for text in _bounds(each)]
    return inner + [
        f"{sign} {value:g}" for name, sign in _BOUNDS.items() if (value := getattr(constraint, name, None)) is not None
    ]
