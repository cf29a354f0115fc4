"""What differs between a clone and a wheel: where search spaces and cluster files are, and how it is installed."""

from __future__ import annotations

from pathlib import Path

SPACES = "search_spaces"


def folder(name: str) -> Path:
    """The folder `search_spaces` or `cluster`: inside the package in a wheel, beside it in a clone."""
    inside = _inside() / name
    return inside if inside.is_dir() else Path(__file__).parents[1] / name


def install_command(extra: str = "") -> str:
    """What installs all that the package needs, or an extra of it; for a clone it is typed there."""
    if _inside().is_dir():
        return f"pip install 'co2l[{extra}]'" if extra else "pip install co2l"
    return "pip install -c constraints.txt -e " + (f"'.[{extra}]'" if extra else ".")


def _inside() -> Path:
    """The folder that only a wheel has."""
    return Path(__file__).parent / "_shipped"


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
