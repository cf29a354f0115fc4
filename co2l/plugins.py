"""What others add without a fork: names from installed packages and imported files, and which source is behind them.

A package lists what it adds as entry points `co2l.methods`, `co2l.benchmarks`, `co2l.encoders` or `co2l.algorithms`;
a file that is given with `--import` calls `register` of the registry, as in `METHODS.register("mine", Mine)`. Nothing
of a plug-in is imported before a name is asked for that co2l itself does not have.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import hashlib
import importlib.metadata
import importlib.util
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from co2l.errors import Co2lError, headline, unknown

T = TypeVar("T")
_SHORT = 16  # characters of a digest


@dataclass(frozen=True)
class Plugin:
    """The source behind a name. Results are reused only by the very same one."""

    name: str  # of the package, or of the imported module
    version: str  # empty for a file
    digest: str  # of the source

    def __str__(self) -> str:
        return " ".join(filter(None, [self.name, self.version, self.digest]))


@dataclass(frozen=True)
class _Added(Generic[T]):
    thing: T
    plugin: Callable[[], Plugin]  # computed when it is needed: it reads files


class Registry(MutableMapping[str, T]):
    """Things of one kind by name: co2l's own, then those of imported files, then those of installed packages.

    Setting an item replaces one of co2l's own, whose source is not looked at: a test may do that, a plug-in may not.
    """

    every: ClassVar[list[Registry[Any]]] = []

    def __init__(self, kind: str, own: Mapping[str, T], wrong: Callable[[str, Any], str]) -> None:
        """`wrong` says what keeps a thing from being a `kind` of this name; empty if nothing does."""
        self.kind, self._own, self._wrong = kind, dict(own), wrong
        self._added: dict[str, _Added[T]] = {}
        self._failed: dict[str, str] = {}  # why a plug-in's name cannot be used
        Registry.every.append(self)

    def register(self, name: str, thing: T) -> None:
        """Add a thing under a name; for files that are given with --import."""
        if _importing is None:
            fix = "give the file with --import, or list the name among a package's entry points"
            raise Co2lError(f"{self.kind} '{name}' is registered outside of an import", fix=fix)
        if problem := self._problem(name, thing):
            raise Co2lError(f"{self.kind} '{name}' {problem}", where=_importing.name)
        self._added[name] = _Added(thing, _importing.plugin)
        _importing.added.append((self, name))

    def find(self, name: str, *, where: str = "") -> T:
        """The thing of this name, or one line that says which names there are, and which plug-ins failed."""
        if name in self:
            return self[name]
        known = [*self, *self._failed]
        if name not in self._failed:
            near = difflib.get_close_matches(name, known, n=1)
            if not (near and near[0] in self._failed):
                error = unknown(self.kind, name, known, where=where)
                failed = [f"{each} failed: {reason}" for each, reason in self._failed.items()]
                raise Co2lError("; ".join([error.what, *failed]), where=where, fix=error.fix)
            what = f"unknown {self.kind} '{name}'; '{near[0]}' is near, but {self._failed[near[0]]}"
        else:
            what = f"{self.kind} '{name}': {self._failed[name]}"
        raise Co2lError(what, where=where, fix="mend or remove that plug-in")

    def origin(self, name: str) -> Plugin | None:
        """The plug-in that a name comes from; None if it is co2l's own."""
        return self._added[name].plugin() if name not in self._own and name in self else None

    def own(self) -> list[str]:
        """The names that co2l itself has."""
        return list(self._own)

    def failed(self) -> dict[str, str]:
        """Why plug-ins cannot be used, by the names that they would add."""
        for _ in self:  # which tries them all
            pass
        return dict(self._failed)

    def forget(self, name: str) -> None:
        """Drop what a plug-in added; asked for again, it is looked for again."""
        self._added.pop(name, None)
        self._failed.pop(name, None)

    def __getitem__(self, name: str) -> T:
        if name in self._own:
            return self._own[name]
        if name not in self._added and name in (points := installed(self.group)) and name not in self._failed:
            self._load(name, points[name])
        return self._added[name].thing

    def __setitem__(self, name: str, thing: T) -> None:
        self._own[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        names = [*self._own, *self._added, *installed(self.group)]
        return (name for name in dict.fromkeys(names) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def group(self) -> str:
        """Its group of entry points."""
        return f"co2l.{self.kind}s"

    def _problem(self, name: str, thing: Any) -> str:
        return "is the name of one of co2l's own" if name in self._own else self._wrong(name, thing)

    def _load(self, name: str, points: tuple[importlib.metadata.EntryPoint, ...]) -> None:
        packages = " and ".join(sorted(_package(point) for point in points))
        try:
            if len(points) > 1:
                raise Co2lError("is in more than one package")
            thing = points[0].load()
        except BaseException as error:  # whatever a stranger's code raises, the end of this process too
            if isinstance(error, KeyboardInterrupt):
                raise
            said = headline(error) if isinstance(error, Co2lError) else f"{type(error).__name__}: {headline(error)}"
            self._failed[name] = f"its plug-in {packages} cannot be used ({said})"
            return
        if problem := self._problem(name, thing):
            self._failed[name] = f"its plug-in {packages} cannot be used (it {problem})"
            return
        self._added[name] = _Added(thing, functools.partial(_installed_plugin, points[0], _bases(thing)))


@dataclass
class _Importing:
    """An import that is being executed, and what it has added so far."""

    name: str
    plugin: Callable[[], Plugin]
    added: list[tuple[Registry[Any], str]]


_importing: _Importing | None = None


@contextlib.contextmanager
def registering(name: str, plugin: Callable[[], Plugin]) -> Iterator[list[tuple[Registry[Any], str]]]:
    """Inside, what is registered belongs to the import `name`; yields the registries and names that it adds to."""
    global _importing
    before, _importing = _importing, _Importing(name, plugin, [])
    try:
        yield _importing.added
    finally:
        _importing = before


@functools.cache
def installed(group: str) -> dict[str, tuple[importlib.metadata.EntryPoint, ...]]:
    """The entry points of a group by name. Nothing of them is imported, but finding them takes tens of milliseconds."""
    found: dict[str, tuple[importlib.metadata.EntryPoint, ...]] = {}
    for point in importlib.metadata.entry_points(group=group):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def require(wanted: Iterable[Plugin]) -> None:
    """Refuse to go on where a package is missing that a run needs."""
    for each in wanted:
        try:
            here = importlib.metadata.version(each.name) if each.version else ""
        except importlib.metadata.PackageNotFoundError:
            what = f"the package {each.name} {each.version} is not installed there"
            raise Co2lError(what, where=socket.gethostname()) from None
        if here != each.version:
            what = f"the package {each.name} is {here} there and {each.version} where the search runs"
            raise Co2lError(what, where=socket.gethostname())


def require_same(wanted: Iterable[Plugin], here: Iterable[Plugin]) -> None:
    """Refuse to go on with other source than where the run was planned: its keys would not be those of its states."""
    if other := set(wanted) - set(here):
        what = f"the source of {min(map(str, other))} differs there"
        raise Co2lError(what, where=socket.gethostname())


def _package(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.module


@functools.cache
def _installed_plugin(point: importlib.metadata.EntryPoint, bases: tuple[str, ...]) -> Plugin:
    """Its source is the package that holds it, and those that hold the classes it is derived from."""
    modules = sorted({point.module.partition(".")[0], *bases})
    name, version = (point.dist.name, point.dist.version) if point.dist else (modules[0], "")
    return Plugin(name, version, digest(file for module in modules for file in _files(module)))


def _bases(thing: object) -> tuple[str, ...]:
    above = {kind.__module__.partition(".")[0] for kind in getattr(thing, "__mro__", ())}
    return tuple(sorted(above - {"co2l", "torch", "builtins", "abc", "typing"}))


def _files(module: str) -> Iterator[tuple[str, bytes]]:
    """All that a top-level module consists of, but what Python or an editor leaves there."""
    spec = importlib.util.find_spec(module)
    for location in sorted(spec.submodule_search_locations or [spec.origin or ""]) if spec else []:
        root = Path(location)
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            inside = path.relative_to(root.parent)
            if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in inside.parts):
                yield str(inside), path.read_bytes()


def digest(files: Iterable[tuple[str, bytes]]) -> str:
    """Of files by name."""
    total = hashlib.sha256()
    for name, content in files:
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()[:_SHORT]
