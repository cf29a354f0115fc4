"""The files that come with the package: search spaces and cluster files, in a clone and in a wheel alike."""

from __future__ import annotations

from pathlib import Path

SPACES = "search_spaces"


def folder(name: str) -> Path:
    """The folder `search_spaces` or `cluster`: inside the package in a wheel, beside it in a clone."""
    inside = Path(__file__).parent / "_shipped" / name
    return inside if inside.is_dir() else Path(__file__).parents[1] / name


def spaces() -> dict[str, Path]:
    """The shipped search spaces by name, as `seq_digits` and `paper/digits/asymmetric`."""
    root = folder(SPACES)
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in sorted(root.rglob("*.yaml"))}


def space_file(given: str | Path) -> Path:
    """The file of a space: the path, if there is a file; else the shipped space of that name.

    A path below `search_spaces` names a shipped space too, so that commands written for a clone work anywhere.
    """
    path = Path(given)
    try:
        if path.is_file():
            return path
    except (OSError, ValueError):  # no name that a file can have
        return path
    name = str(given)
    if name.startswith(f"{SPACES}/") and name.endswith(".yaml"):
        name = name.removeprefix(f"{SPACES}/").removesuffix(".yaml")
    return spaces().get(name, path)
