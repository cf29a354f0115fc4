"""The store keeps states and measurements by content key: whole, checked and never executed, or not at all.

Below one root, a local folder or any fsspec URL, a key has up to three files: `<key>.state`, `<key>.partial`
(the middle of a stage) and `<key>.json`. Each is written to `unfinished/` and then renamed, and says inside under
which name it was saved. What is damaged, or stands under another name, is reported, deleted and answered as
absent, so that it is computed again. `claims/` says which records and runs use the store.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import torch
from fsspec.implementations.local import LocalFileSystem

from co2l.errors import Co2lError, OutsideError, headline
from co2l.files import file_system, user_path

_KEY = re.compile(r"[0-9a-f]+(/[0-9a-f]+)?")
_NAME = re.compile(
    r"(?:alone/(?P<trial>[0-9a-f]+)/)?(?:[0-9a-f]+/)?(?P<key>[0-9a-f]+)\.(?:state|partial|json)"
)  # of a file that belongs to a key
_HEADER = "co2l-state 2 {sha256} {length:020d} {name}\n"
_LONGEST_HEADER = 1000
_TRIAL = "c0ffee"  # begins the key of what is only written to see whether that works
_CHUNK = 8 * 2**20  # a remote file buffers what one write hands over: never the whole state a second time
_LEFTOVER_AGE = timedelta(days=1)  # nobody writes one file for a day, so its writer was killed
_AGAIN = "and run the same command again: everything finished so far is kept"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredFile:
    """A file in a store, as `Store.contents` lists it."""

    name: str  # its path below the store
    size: int  # in bytes
    modified: datetime

    @property
    def _parts(self) -> re.Match[str] | None:
        return _NAME.fullmatch(self.name)

    @property
    def is_ours(self) -> bool:
        """Whether it has a name that a store gives. What is being written, and claims, are not for others to delete."""
        return self._parts is not None

    @property
    def key(self) -> str:
        """Without the folder, which says on which data and device it was computed."""
        return self._parts["key"] if self._parts else ""

    @property
    def trial(self) -> str:
        """The trial that has it for itself, as trials have that share no stages; else empty."""
        return (self._parts["trial"] or "") if self._parts else ""

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]


class Store:
    """States and measurements below `root`; any number of processes may use the same root at once."""

    def __init__(self, root: str | Path) -> None:
        if not str(root):
            raise Co2lError("the store has no name", fix="give a folder or an fsspec URL")
        self.root = str(root) if "://" in str(root) else str(user_path(root, "the store").absolute())
        self._fs, self._folder = file_system(self.root, "store")
        self._unfinished = f"{self._folder}/unfinished"  # no key's name: it is not hexadecimal
        self._claims = f"{self._folder}/claims"  # nor is this
        self._local = isinstance(self._fs, LocalFileSystem)
        self._sweep()

    def check(self) -> None:
        """Write, read and delete something, so that a store that refuses is reported before a search starts."""
        if self._fs.protocol == "memory":
            raise Co2lError("a store in memory is each process's own", where=self.root, fix="give another --store")
        key = f"{_TRIAL}{uuid.uuid4().hex}"
        self.save_measurement(key, {"written": True})
        if self.load_measurement(key) != {"written": True}:
            what = "what was written to the store does not come back"
            raise OutsideError(what, where=self.root, fix="give another --store")
        self._delete(self._path(key, "json"))

    def has_state(self, key: str) -> bool:
        path = self._path(key, "state")
        with _refusals("read", self.root):
            return bool(self._fs.exists(path))

    def load_state(self, key: str, *, partial: bool = False) -> dict[str, Any] | None:
        return self._load(self._path(key, "partial" if partial else "state"), _decode_state)

    def save_state(self, key: str, state: Mapping[str, Any], *, partial: bool = False) -> None:
        path = self._path(key, "partial" if partial else "state")
        buffer = io.BytesIO()
        torch.save(_plain(state, "state"), buffer)
        with buffer.getbuffer() as payload:
            self._write(path, _header(payload, self._name(path)), payload)

    def delete_state(self, key: str, *, partial: bool = False) -> None:
        self._delete(self._path(key, "partial" if partial else "state"))

    def load_measurement(self, key: str) -> dict[str, Any] | None:
        return self._load(self._path(key, "json"), _decode_measurement)

    def save_measurement(self, key: str, measurement: Mapping[str, Any]) -> None:
        path = self._path(key, "json")
        self._write(path, b"", memoryview(_encode_measurement(measurement, self._name(path))))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder that this machine sees."""
        return self._local

    def contents(self) -> Iterator[StoredFile]:
        """Every file below the root, by name."""
        with _refusals("read", self.root):
            found = self._fs.find(self._folder, detail=True)
        for path, info in found.items():
            yield StoredFile(self._name(path), int(info.get("size") or 0), _modified(info))

    def remove(self, file: StoredFile) -> None:
        self._delete(f"{self._folder}/{file.name}")

    def claim(self, content: Mapping[str, Any]) -> None:
        """Note who uses the store, so that nothing of theirs is taken for garbage; the same claim again is the same."""
        text = json.dumps(content, sort_keys=True).encode()
        self._write(f"{self._claims}/{hashlib.sha256(text).hexdigest()[:32]}", b"", memoryview(text))

    def claims(self) -> list[dict[str, Any]]:
        """What was claimed; one that cannot be read is an error, because nobody knows what it protects."""
        with _refusals("read", self.root):
            try:
                found = self._fs.find(self._claims)
                texts = {path: self._fs.cat_file(path) for path in found}
            except FileNotFoundError:
                return []
        try:
            return [dict(json.loads(text)) for text in texts.values()]
        except (ValueError, TypeError):
            raise Co2lError(
                "a claim is damaged", where=self._claims, fix="delete it if you know whose it was"
            ) from None

    def _path(self, key: str, kind: str) -> str:
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key is hexadecimal with at most one slash inside, not {key!r}")
        return f"{self._folder}/{key}.{kind}"

    def _name(self, path: str) -> str:
        """The key and the kind of a file, which stand inside it too."""
        return path.removeprefix(f"{self._folder}/")

    def _load(self, path: str, decode: Callable[[bytes, bytes, str], dict[str, Any]]) -> dict[str, Any] | None:
        with _refusals("read", self.root):
            try:
                with self._fs.open(path, "rb") as file:
                    first, rest = file.readline(_LONGEST_HEADER), file.read()
            except FileNotFoundError:
                return None
        try:
            return decode(first, rest, self._name(path))
        except (ValueError, RecursionError) as damage:
            _log.warning("%s is damaged (%s): deleted, to be computed again", path, damage)
            self._delete(path)
            return None

    def _write(self, path: str, header: bytes, payload: memoryview) -> None:
        folder, _, _ = path.rpartition("/")
        unfinished = f"{self._unfinished}/{uuid.uuid4().hex}"
        try:
            with _refusals("write", self.root):
                self._fs.makedirs(self._unfinished, exist_ok=True)
                self._fs.makedirs(folder, exist_ok=True)
                with self._fs.open(unfinished, "wb") as file:
                    file.write(header)
                    for start in range(0, len(payload), _CHUNK):
                        file.write(payload[start : start + _CHUNK])
                    if self._local:
                        file.flush()
                        os.fsync(file.fileno())
                if self._local:
                    Path(unfinished).replace(path)  # the local mv of fsspec may copy, which is not atomic
                else:
                    self._fs.mv(unfinished, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(unfinished)
            raise

    def _delete(self, path: str) -> None:
        with _refusals("delete", self.root), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def _sweep(self) -> None:
        """Remove what killed writers left behind. A store that refuses is reported by the next real operation."""
        with contextlib.suppress(Exception):
            for path in self._fs.ls(self._unfinished, detail=False):
                if datetime.now(UTC) - self._fs.modified(path).astimezone(UTC) > _LEFTOVER_AGE:
                    self._fs.rm_file(path)


def _modified(info: Mapping[str, Any]) -> datetime:
    """When a file was written, as far as its file system says: else now, so that it is never taken for old."""
    found = next((info[name] for name in ("mtime", "LastModified", "created", "updated") if info.get(name)), None)
    if isinstance(found, int | float):
        return datetime.fromtimestamp(found, UTC)
    return found.astimezone(UTC) if isinstance(found, datetime) else datetime.now(UTC)


def _plain(value: Any, where: str) -> Any:
    """The same value of types that load without executing code; refused here, not lost when it is loaded."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        # torch.save writes the whole storage, also for a small view of it.
        return value.clone() if value.nbytes < value.untyped_storage().nbytes() else value
    if isinstance(value, Mapping):
        return {_plain(name, where): _plain(item, f"{where}[{name!r}]") for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"{where}: cannot store a {type(value).__name__}, only tensors and plain values")


def _header(payload: bytes | memoryview, name: str) -> bytes:
    content = hashlib.sha256(name.encode())
    content.update(payload)
    return _HEADER.format(sha256=content.hexdigest(), length=len(payload), name=name).encode()


def _decode_state(header: bytes, payload: bytes, name: str) -> dict[str, Any]:
    if header != _header(payload, name):
        raise ValueError("its checksum does not match, or it was saved under another name")
    try:
        state = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:  # a forged file can raise any kind
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise  # this process is short of memory; nothing is wrong with the file
        raise ValueError("it holds something else than tensors and plain values") from error
    if not isinstance(state, dict):
        raise ValueError("it is not a dictionary")
    return state


def _encode_measurement(measurement: Mapping[str, Any], name: str) -> bytes:
    """A measurement as JSON with its name and checksum; the same measurement always gives the same bytes."""
    body = json.dumps(measurement)
    sha256 = hashlib.sha256(f"{name}{body}".encode()).hexdigest()
    return f'{{"sha256": "{sha256}", "name": "{name}", "measurement": {body}}}\n'.encode()


def _decode_measurement(start: bytes, rest: bytes, name: str) -> dict[str, Any]:
    content = start + rest
    match json.loads(content):
        case {"measurement": dict(measurement)} if _encode_measurement(measurement, name) == content:
            return measurement
    raise ValueError("its checksum does not match, or it was saved under another name")


@contextlib.contextmanager
def _refusals(doing: str, store: str) -> Iterator[None]:
    """Tell the user what to do about a store that refuses."""
    try:
        yield
    except MemoryError:  # of this process
        raise
    except Exception as error:  # remote file systems raise any kind if the network is lost or credentials are missing
        code = error.errno if isinstance(error, OSError) else None
        reason = (error.strerror if isinstance(error, OSError) else None) or headline(error)
        fix = f"make the store work {_AGAIN}"
        if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            fix = f"free space there or choose another store {_AGAIN}"
        elif isinstance(error, PermissionError) or code == errno.EROFS:
            fix = f"allow this user to {doing} there {_AGAIN}"
        raise OutsideError(f"cannot {doing} a state: {reason}", where=store, fix=fix) from error
