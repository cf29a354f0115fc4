"""Whether a space is a former one with something added, and how the two differ otherwise: by their canonical forms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from co2l.search.space.document import METHOD

if TYPE_CHECKING:
    from co2l.search.space.space import Space


def digest_of(canonical: Mapping[str, Any]) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """How two canonical forms differ, a line for each key, as `axes.eta: [0.1] → [0.1, 0.5]`."""
    old, new = dict(_flat(before)), dict(_flat(after))

    def shown(side: Mapping[str, Any], name: str) -> str:
        return json.dumps(side[name], ensure_ascii=False) if name in side else "nothing"

    return [f"{name}: {shown(old, name)} → {shown(new, name)}" for name in {**old, **new} if _differs(old, new, name)]


def grown(before: Mapping[str, Any], after: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """The canonical form `before` with what `after`, that of `space`, adds and replaces nothing by.

    That is values of an axis, seeds, and the plug-ins of added methods and encoders.
    """
    old, new = before["axes"], after["axes"]
    axes = {name: new[name] if name in new and _holds(new[name], axis) else axis for name, axis in old.items()}
    more = {"seeds": after["seeds"]} if _holds(after.get("seeds"), before.get("seeds")) else {}
    if before.get("methods"):
        more["methods"] = {**after.get("methods", {}), **before["methods"]}
    if before.get("plugins") != after.get("plugins") and axes == new:
        former = space.replace(axes={**space.axes, **{name: old[name] for name in (METHOD, "encoder") if name in old}})
        if former.canonical().get("plugins") == before.get("plugins"):  # each name has the source that it had
            more["plugins"] = after["plugins"]
    return {**before, "axes": axes, **more}


def _holds(larger: Any, smaller: Any) -> bool:
    """Whether all values of a list, or of a range, are among those of another one."""
    if isinstance(larger, list) and isinstance(smaller, list):
        return all(value in larger for value in smaller)
    if isinstance(larger, Mapping) and isinstance(smaller, Mapping):
        same = larger["log"] == smaller["log"]
        return bool(same and larger["low"] <= smaller["low"] and smaller["high"] <= larger["high"])
    return False


def _differs(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> bool:
    return name not in old or name not in new or bool(old[name] != new[name])


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
