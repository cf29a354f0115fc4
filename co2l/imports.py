"""Modules that are no packages: read where a command runs, and executed from the same text there and on every worker.

`--import my_method.py` names a file, a folder with `__init__.py`, or a module that Python finds. Its source travels
with each trial, so workers need nothing of it, and a change of it changes the keys of what it adds (`co2l.plugins`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from co2l.errors import Co2lError, headline
from co2l.files import read_text as file_text
from co2l.files import user_path
from co2l.plugins import Plugin, Registry, digest, registering

LARGEST = 2_000_000  # characters of source that travel with every trial


@dataclass(frozen=True)
class Import:
    """A module's name and its source files, as they are and wherever they are."""

    name: str
    files: Mapping[str, str]  # by the path as seen from the folder that holds it
    path: str = field(default="", compare=False)  # where it was read

    @property
    def top(self) -> str:
        """The top-level module, of which it may be a part."""
        return self.name.partition(".")[0]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "files": dict(self.files)}


@dataclass(frozen=True)
class _Active:
    imported: Import
    added: list[tuple[Registry[Any], str]]


_active: dict[str, _Active] = {}  # by the top-level module


def active() -> list[Import]:
    """All that are imported now, in that order."""
    return [each.imported for each in _active.values()]


def read(given: str, folder: Path | None = None) -> Import:
    """What `given` names, a path as seen from `folder` or a module; nothing of it is executed."""
    if given.endswith(".py") or "/" in given:
        path = Path(folder or "", user_path(given, "--import")).absolute()
        name = path.stem if path.suffix == ".py" else path.name
    else:
        name, path = given, _found(given)
    top = name.partition(".")[0]
    if not all(part.isidentifier() for part in name.split(".")) or top in (*sys.stdlib_module_names, "co2l"):
        raise Co2lError(f"'{name}' cannot be the name of your module", where="--import", fix="give it another name")
    if path.is_dir() and not (path / "__init__.py").is_file():
        raise Co2lError("has no __init__.py", where=f"--import {given}", fix="give a Python file or a package's folder")
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    texts: dict[str, str] = {}
    try:
        for file in files:
            texts[str(file.relative_to(path.parent))] = file_text(file, LARGEST - sum(map(len, texts.values())))
    except Co2lError:
        raise Co2lError(
            "is too large to travel with every trial", where=f"--import {given}", fix="install it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise Co2lError(f"cannot be read ({reason})", where=f"--import {given}", fix="give a Python file") from None
    return Import(name, texts, str(path))


def _found(name: str) -> Path:
    """The file or folder of a module by its name; those in the current folder are found too."""
    top = name.partition(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd()), *sys.path])
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        fix = "give a Python file, as --import my_method.py"
        raise Co2lError(f"there is no module '{name}'", where="--import", fix=fix)
    origin = Path(spec.origin)
    return origin.parent if spec.submodule_search_locations else origin


def use(imports: Iterable[Import]) -> None:
    """Execute each of them, unless this very source was executed already."""
    for each in imports:
        if each.top not in _active or _active[each.top].imported != each:
            _execute(each)


def use_given(given: Sequence[str], folder: Path | None = None) -> None:
    """The same for what flags or a space name."""
    use([read(each, folder) for each in given])


def drop(top: str) -> None:
    """Undo an import: what it added is unknown again."""
    _plugin.cache_clear()
    _FINDER.carried.pop(top, None)
    for registry, name in _active.pop(top).added if top in _active else ():
        registry.forget(name)
    for module in [name for name in sys.modules if name.partition(".")[0] == top]:
        del sys.modules[module]


def _execute(each: Import) -> None:
    drop(each.top)
    _FINDER.carried[each.top] = each
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    where = each.path or each.name
    with registering(each.name, lambda: _plugin(each.top)) as added:
        _active[each.top] = _Active(each, added)
        try:
            importlib.import_module(each.name)
        except BaseException as error:  # whatever a stranger's code raises, the end of this process too
            drop(each.top)
            if isinstance(error, KeyboardInterrupt):
                raise
            if isinstance(error, Co2lError):
                raise Co2lError(error.what, where=where, fix=error.fix) from None
            said = f"{type(error).__name__}: {headline(error)}"
            raise Co2lError(f"cannot be imported ({said})", where=f"{where}{_line(error, each)}") from None
    if not added:
        drop(each.top)
        fix = 'add for example METHODS.register("my_method", MyMethod)'
        raise Co2lError("registers nothing", where=where, fix=fix)


def _line(error: BaseException, each: Import) -> str:
    """The line that failed, if it is in the import itself and not in what it calls."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    inside = len(each.files) == 1 and last.filename.endswith(next(iter(each.files)))
    return f":{last.lineno}" if inside else ""


@functools.cache
def _plugin(top: str) -> Plugin:
    """Of an import together with all others that its source mentions, as it may import them."""
    needed, queue = {top}, [top]
    while queue:
        text = "\n".join(_active[queue.pop()].imported.files.values())
        found = {other for other in _active if other not in needed and re.search(rf"\b{other}\b", text)}
        needed |= found
        queue += found
    files = sorted(pair for each in needed for pair in _active[each].imported.files.items())
    return Plugin(top, "", digest((name, text.encode()) for name, text in files))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules whose source is carried, before those of the same name on this machine."""

    def __init__(self) -> None:
        self.carried: dict[str, Import] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        each = self.carried.get(fullname.partition(".")[0])
        if each is None:
            return None
        inside = fullname.replace(".", "/")
        for file in (f"{inside}/__init__.py", f"{inside}.py"):
            if file in each.files:
                origin = str(Path(each.path).parent / file) if each.path else file
                loader = _Loader(fullname, origin, each.files[file])
                below: list[str] | None = [] if file.endswith("__init__.py") else None
                return importlib.util.spec_from_file_location(
                    fullname, origin, loader=loader, submodule_search_locations=below
                )
        return None


class _Loader(importlib.abc.SourceLoader):
    """Loads one module from its text."""

    def __init__(self, name: str, origin: str, text: str) -> None:
        self._name, self._origin, self._text = name, origin, text

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._origin

    def get_data(self, path: str | bytes) -> bytes:
        if path == self._origin:
            return self._text.encode()
        raise OSError(f"{path!r} does not travel with '{self._name}'")


_FINDER = _Finder()
