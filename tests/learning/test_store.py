"""What the store gives back is bit for bit what was saved, or nothing; whoever was killed, cut off or malicious."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import os
import pickle
import random
import resource
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from commands import FORKS
from fsspec.implementations.memory import MemoryFileSystem

from co2l.errors import Co2lError, OutsideError
from co2l.learning.store import Store

KEY = "ab12/cd34"


@pytest.fixture(params=["local", "file://", "memory://"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory://":
        name = f"memory://{uuid.uuid4().hex}/store"
        yield name
        fsspec.filesystem("memory").store.clear()
    else:
        yield str(tmp_path / "store") if request.param == "local" else f"file://{tmp_path}/store"


@pytest.fixture
def store(root: str) -> Store:
    return Store(root)


def files(root: str) -> list[str]:
    """Every file below the root, relative to it."""
    fs, folder = fsspec.url_to_fs(root)
    return sorted(path.removeprefix(f"{folder}/") for path in fs.find(folder))


def read(root: str, name: str) -> bytes:
    with fsspec.open(f"{root}/{name}", "rb") as file:
        return bytes(file.read())


def overwrite(root: str, name: str, content: bytes) -> None:
    with fsspec.open(f"{root}/{name}", "wb") as file:
        file.write(content)


def example(seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(7, 5, generator=generator)
    return {
        "model": {"weight": weight, "tied": weight, "half": weight.bfloat16(), "turned": weight.T},
        "counts": [torch.arange(5), torch.tensor([True, False]), torch.tensor(3, dtype=torch.uint8)],
        "special": torch.tensor([math.nan, math.inf, -0.0, 1e-42]),
        "empty": torch.empty(0, 3),
        "optimiser": {0: {"momentum": weight.double()}, 1: {}},
        "generator": generator.get_state(),
        "plain": [1, 2**70, 0.1, -0.0, "text é\n", True, None, (1, "two"), []],
    }


def assert_same_bits(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.contiguous().flatten().view(torch.uint8).equal(b.contiguous().flatten().view(torch.uint8))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            assert_same_bits(a[name], b[name])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same_bits(x, y)
    else:
        assert repr(a) == repr(b)


@pytest.mark.parametrize("key", ["ab12", KEY])
def test_a_state_comes_back_bit_for_bit(store: Store, root: str, key: str) -> None:
    store.save_state(key, example())
    loaded = Store(root).load_state(key)
    assert_same_bits(loaded, example())
    assert files(root) == [f"{key}.state"]


def test_a_saved_state_replaces_the_former(store: Store, root: str) -> None:
    store.save_state(KEY, example(1))
    store.save_state(KEY, example(2))
    assert_same_bits(store.load_state(KEY), example(2))
    assert files(root) == [f"{KEY}.state"]


def test_state_partial_and_record_of_a_key_live_side_by_side(store: Store, root: str) -> None:
    store.save_state(KEY, example(1), partial=True)
    assert not store.has_state(KEY)
    store.save_state(KEY, example(2))
    store.save_measurement(KEY, {"accuracy": [0.5]})
    assert store.has_state(KEY)
    assert_same_bits(store.load_state(KEY, partial=True), example(1))
    assert_same_bits(store.load_state(KEY), example(2))
    store.delete_state(KEY, partial=True)
    assert files(root) == [f"{KEY}.json", f"{KEY}.state"]
    store.delete_state(KEY)
    assert not store.has_state(KEY)
    assert store.load_measurement(KEY) == {"accuracy": [0.5]}


def test_what_is_absent_is_none_and_may_be_deleted(store: Store, root: str) -> None:
    assert store.load_state(KEY) is None
    assert store.load_state(KEY, partial=True) is None
    assert store.load_measurement(KEY) is None
    assert not store.has_state(KEY)
    store.delete_state(KEY)
    store.delete_state(KEY, partial=True)
    assert files(root) == []


def test_a_record_comes_back_and_is_plain_json(store: Store, root: str) -> None:
    record = {"z": [0.1, 1e-05, 1 / 3, -0.0], "a": {"name": "é\n", "none": None, "big": 2**70}, "ok": True}
    store.save_measurement(KEY, record)
    assert repr(Store(root).load_measurement(KEY)) == repr(record)
    assert json.loads(read(root, f"{KEY}.json"))["measurement"] == record
    store.save_measurement(KEY, {"diverged": math.nan})
    assert repr(store.load_measurement(KEY)) == repr({"diverged": math.nan})


def test_model_and_optimiser_continue_from_their_stored_state(store: Store) -> None:
    def build() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> torch.Tensor:
        optimiser.zero_grad()
        loss: torch.Tensor = model(torch.arange(12.0).view(4, 3)).square().sum()
        loss.backward()
        optimiser.step()
        return loss.detach()

    model, optimiser = build()
    step(model, optimiser)
    store.save_state(KEY, {"model": model.state_dict(), "optimiser": optimiser.state_dict()})
    state = store.load_state(KEY)
    assert state is not None
    again, its_optimiser = build()
    again.load_state_dict(state["model"])
    its_optimiser.load_state_dict(state["optimiser"])
    for _ in range(3):
        assert step(model, optimiser).equal(step(again, its_optimiser))


def test_a_small_view_does_not_drag_its_whole_storage_along(store: Store, root: str) -> None:
    store.save_state(KEY, {"view": torch.arange(100_000.0)[10:13]})
    assert len(read(root, f"{KEY}.state")) < 10_000
    assert_same_bits(store.load_state(KEY), {"view": torch.tensor([10.0, 11.0, 12.0])})


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", torch.device("cpu"), torch.float32])
def test_what_could_not_be_loaded_is_refused_when_saved(store: Store, root: str, value: object) -> None:
    with pytest.raises(TypeError, match=r"state\['a'\]\[1\]"):
        store.save_state(KEY, {"a": [0, value]})
    assert files(root) == []


@pytest.mark.parametrize("key", ["", "../ab", "/ab", "ab/", "ab/../cd", "ab//cd", "ab/cd/ef", "AB", "xy", "ab\n", "."])
def test_a_key_that_is_no_key_is_refused(store: Store, root: str, key: str) -> None:
    for attempt in (
        lambda: store.load_state(key),
        lambda: store.save_state(key, {}),
        lambda: store.has_state(key),
        lambda: store.delete_state(key),
        lambda: store.load_measurement(key),
        lambda: store.save_measurement(key, {}),
    ):
        with pytest.raises(ValueError, match="hexadecimal"):
            attempt()
    assert files(root) == []


def damaged(content: bytes) -> Iterator[bytes]:
    """Cut off at many offsets, one bit flipped at many offsets, emptied, grown, or another file altogether."""
    offsets = sorted({*range(0, 120, 7), *random.Random(0).sample(range(len(content)), 40), len(content) - 1})
    yield from (content[:offset] for offset in offsets if offset < len(content))
    for offset in offsets:
        if offset < len(content):
            flipped = bytes([content[offset] ^ (1 << offset % 8)])
            yield content[:offset] + flipped + content[offset + 1 :]
    yield content + b"\0"
    yield content.replace(b" 2", b" 1", 1)
    yield b"{}\n"
    yield b"[]"


def test_a_damaged_state_is_reported_deleted_and_can_be_saved_again(
    store: Store, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.save_state(KEY, example())
    content = read(root, f"{KEY}.state")
    for bad in damaged(content):
        overwrite(root, f"{KEY}.state", bad)
        caplog.clear()
        assert store.load_state(KEY) is None
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert KEY in caplog.text
        assert files(root) == []
    store.save_state(KEY, example())
    assert_same_bits(store.load_state(KEY), example())


def test_a_damaged_record_is_reported_deleted_and_can_be_saved_again(
    store: Store, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    record = {"accuracy": [[97.5, 1e-05], [0.25, 3]], "benchmark": "digits", "seed": 17}
    store.save_measurement(KEY, record)
    content = read(root, f"{KEY}.json")
    every_bit = [
        content[:offset] + bytes([content[offset] ^ (1 << bit)]) + content[offset + 1 :]
        for offset in range(len(content))
        for bit in range(8)
    ]
    every_cut = [content[:offset] for offset in range(len(content))]
    for bad in [*every_bit, *every_cut, b"[]", b"{}", b'{"record": 3}', b"[" * 100_000, content + b" "]:
        overwrite(root, f"{KEY}.json", bad)
        caplog.clear()
        assert store.load_measurement(KEY) is None
        assert [entry.levelno for entry in caplog.records] == [logging.WARNING]
        assert files(root) == []
    store.save_measurement(KEY, record)
    assert store.load_measurement(KEY) == record


class Malicious:
    """Creates a file as soon as somebody unpickles it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("through", ["torch", "pickle", "bare tensor", "noise"])
def test_a_forged_state_with_a_valid_checksum_is_not_executed(
    store: Store, root: str, tmp_path: Path, through: str
) -> None:
    trace = tmp_path / "trace"
    buffer = io.BytesIO()
    if through == "pickle":
        buffer.write(pickle.dumps({"weight": Malicious(trace)}, protocol=2))
    elif through == "noise":
        buffer.write(random.Random(0).randbytes(1000))
    else:
        torch.save({"weight": Malicious(trace)} if through == "torch" else torch.zeros(3), buffer)
    payload = buffer.getvalue()
    name = "ab.state"
    sha256 = hashlib.sha256(name.encode() + payload).hexdigest()
    header = f"co2l-state 2 {sha256} {len(payload):020d} {name}\n"
    overwrite(root, "ab.state", header.encode() + payload)
    assert store.load_state("ab") is None
    assert not trace.exists()
    assert files(root) == []


def test_a_state_is_not_given_up_because_memory_is_short(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save_state(KEY, example())
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")):
        with monkeypatch.context() as patch:
            patch.setattr(torch, "load", raising(error))
            with pytest.raises(type(error)):
                store.load_state(KEY)
    assert_same_bits(store.load_state(KEY), example())


def raising(error: BaseException) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "told"), [(KeyboardInterrupt(), KeyboardInterrupt), (RuntimeError("connection lost"), OutsideError)]
)
def test_an_interrupted_save_leaves_the_former_state_and_nothing_else(
    store: Store, root: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, told: type[BaseException]
) -> None:
    store.save_state(KEY, example(1))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", raising(error))
        patch.setattr(fsspec.AbstractFileSystem, "mv", raising(error))
        with pytest.raises(told):
            store.save_state(KEY, example(2))
    assert_same_bits(store.load_state(KEY), example(1))
    assert files(root) == [f"{KEY}.state"]


@pytest.mark.parametrize("kind", ["state", "partial", "json"])
def test_a_file_under_another_key_is_not_taken_for_it(kind: str, tmp_path: Path) -> None:
    """Two files that somebody swapped are whole, and each is what the other should be."""
    store, one, two = Store(tmp_path), "aa/01", "aa/02"
    for key, value in ((one, 1), (two, 2)):
        if kind == "json":
            store.save_measurement(key, {"value": value})
        else:
            store.save_state(key, {"value": value}, partial=kind == "partial")
    first, second = (tmp_path / f"{key}.{kind}" for key in (one, two))
    aside = first.rename(tmp_path / "aside")
    second.rename(first)
    aside.rename(second)
    for key in (one, two):
        found = store.load_measurement(key) if kind == "json" else store.load_state(key, partial=kind == "partial")
        assert found is None


def test_the_middle_of_a_stage_is_not_taken_for_its_end(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save_state(KEY, {"value": 1}, partial=True)
    (tmp_path / f"{KEY}.partial").rename(tmp_path / f"{KEY}.state")
    assert store.load_state(KEY) is None


@pytest.mark.parametrize("root_given", ["file", "file/below", "/dev/null", "foo://x", ""])
def test_a_store_that_cannot_work_is_refused_when_it_is_tried(root_given: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    root = root_given if root_given.startswith(("/", "foo")) else f"{tmp_path}/{root_given}" if root_given else ""
    with pytest.raises(Co2lError) as error:
        Store(root).check()
    assert "\n" not in str(error.value)
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_folder_whose_name_looks_like_a_url_is_that_folder(tmp_path: Path) -> None:
    """Behind two colons fsspec expects another URL: states went into a folder of another name."""
    store = Store(tmp_path / "a::b" / "file:c")
    store.save_state(KEY, {"value": 1})
    store.check()
    assert store.load_state(KEY) == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a::b"]
    assert (tmp_path / "a::b" / "file:c" / f"{KEY}.state").is_file()


def test_a_store_in_memory_is_no_store_of_a_search(tmp_path: Path) -> None:
    with pytest.raises(Co2lError, match="a store in memory is each process's own"):
        Store("memory://x").check()


class NetworkLostError(Exception):
    """As remote file systems have their own errors, which Python's do not know."""


class Unreachable(MemoryFileSystem):  # type: ignore[misc]
    protocol = "unreachable"

    def lose(self, *_: object, **__: object) -> None:
        raise NetworkLostError("Could not connect to the endpoint\nat 127.0.0.1")

    exists = open = cat_file = makedirs = mv = rm_file = find = lose


class Forbidden(Unreachable):
    protocol = "forbidden"

    def __init__(self, **_: object) -> None:
        self.lose()


fsspec.register_implementation("unreachable", Unreachable)
fsspec.register_implementation("forbidden", Forbidden)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda store: store.check(),
        lambda store: store.has_state(KEY),
        lambda store: store.load_state(KEY),
        lambda store: store.save_state(KEY, example()),
        lambda store: store.delete_state(KEY),
        lambda store: store.load_measurement(KEY),
        lambda store: store.save_measurement(KEY, {}),
        lambda store: list(store.contents()),
        lambda store: store.claim({"record": "r"}),
        lambda store: store.claims(),
    ],
)
def test_a_lost_network_is_not_the_trials_fault_whatever_the_error(attempt: Callable[[Store], object]) -> None:
    """A store in S3 without network or credentials ended in a traceback, and used up the attempts of trials."""
    with pytest.raises(OutsideError, match=r"unreachable://bucket: cannot \w+ a state: Could not connect.*; make"):
        attempt(Store("unreachable://bucket"))


def test_a_store_that_cannot_even_be_opened_is_not_the_trials_fault() -> None:
    with pytest.raises(OutsideError, match="forbidden://bucket: cannot open this store: Could not connect"):
        Store("forbidden://bucket")


def test_trying_a_store_leaves_nothing_in_it(tmp_path: Path) -> None:
    Store(tmp_path / "store").check()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_leftovers_of_killed_writers_are_swept_after_a_day(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save_state(KEY, example())
    fresh, old = tmp_path / "unfinished" / "fresh", tmp_path / "unfinished" / "old"
    for path, age in ((fresh, 3600), (old, 25 * 3600), (tmp_path / f"{KEY}.state", 30 * 24 * 3600)):
        path.touch()
        os.utime(path, (time.time() - age, time.time() - age))
    assert_same_bits(Store(tmp_path).load_state(KEY), example())
    assert fresh.exists()
    assert not old.exists()


def test_opening_a_store_creates_nothing_and_a_relative_root_stays_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store("runs")
    assert store.root == str(tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.save_measurement(KEY, {})
    assert (tmp_path / "runs" / f"{KEY}.json").exists()


def test_a_store_travels_to_other_processes(store: Store) -> None:
    store.save_measurement(KEY, {"a": 1})
    assert pickle.loads(pickle.dumps(store)).load_measurement(KEY) == {"a": 1}


def test_an_unknown_kind_of_url_is_a_users_error() -> None:
    with pytest.raises(Co2lError, match="nosuch://bucket: cannot open this store"):
        Store("nosuch://bucket")


def generation(number: int) -> dict[str, Any]:
    """A state of 8 MB in several tensors that all tell the same number."""
    return {"number": number, "parts": [torch.full((500_000,), number) for _ in range(2)]}


def assert_whole(state: dict[str, Any] | None) -> None:
    assert state is not None
    assert all(bool((part == state["number"]).all()) for part in state["parts"])


def write_for_ever(root: str, first: int, step: int, ready: Any) -> None:
    torch.set_num_threads(1)
    store = Store(root)
    for number in range(first, 10**9, step):
        store.save_state(KEY, generation(number))
        ready.set()


@pytest.mark.e2e
def test_a_killed_writer_leaves_the_old_or_the_new_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, unfinished = Store(tmp_path), tmp_path / "unfinished"
    delays, killed_inside = random.Random(0), 0
    store.save_state(KEY, generation(0))
    for attempt in range(20):
        ready = FORKS.Event()
        writer = FORKS.Process(target=write_for_ever, args=(str(tmp_path), attempt * 1000, 1, ready), daemon=True)
        writer.start()
        assert ready.wait(60)
        time.sleep(delays.uniform(0, 0.05))
        while attempt % 2 and not any(unfinished.iterdir()):
            pass  # every second one is killed in the middle of a file
        writer.kill()
        writer.join()
        assert_whole(store.load_state(KEY))
        leftovers = list(unfinished.iterdir())
        killed_inside += bool(leftovers)
        for leftover in leftovers:
            leftover.unlink()
    assert killed_inside > 0  # else this test has not tried what it says
    assert not caplog.records


def test_concurrent_writers_and_readers_always_see_a_whole_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path)
    events = [FORKS.Event() for _ in range(3)]
    writers = [
        FORKS.Process(target=write_for_ever, args=(str(tmp_path), i, 3, event)) for i, event in enumerate(events)
    ]
    for writer in writers:
        writer.start()
    try:
        assert all(event.wait(60) for event in events)
        seen = set()
        for _ in range(40):
            state = store.load_state(KEY)
            assert_whole(state)
            seen.add(state["number"] % 3)  # type: ignore[index]  # just shown not to be None
    finally:
        for writer in writers:
            writer.kill()
            writer.join()
    assert len(seen) > 1
    assert not caplog.records


def test_threads_may_save_the_same_key_at_once(store: Store, root: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: store.save_state(KEY, generation(number)), range(8)))
    assert_whole(store.load_state(KEY))
    assert files(root) == [f"{KEY}.state"]


def assert_tells_to_free_space(error: str, where: Path) -> None:
    assert "\n" not in error
    assert str(where) in error
    assert "free space" in error
    assert "run the same command again: everything finished so far is kept" in error


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a full disk: this user cannot mount a small one")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_keeps_what_was_there_and_says_what_to_do(tiny_disk: Path) -> None:
    store = Store(tiny_disk)
    store.save_state(KEY, example())
    with pytest.raises(Co2lError) as caught:
        store.save_state(KEY, generation(1))
    assert_tells_to_free_space(str(caught.value), tiny_disk)
    assert files(str(tiny_disk)) == [f"{KEY}.state"]
    (tiny_disk / "filler").write_bytes(bytes(1_500_000))
    with pytest.raises(Co2lError):
        store.save_measurement(KEY, {"long": "x" * 600_000})
    assert_same_bits(store.load_state(KEY), example())
    assert store.load_measurement(KEY) is None
    (tiny_disk / "filler").unlink()
    store.save_measurement(KEY, {"long": "x" * 600_000})


def save_with_limit(root: str, answers: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        Store(root).save_state(KEY, generation(1))
    except Co2lError as error:
        answers.put(str(error))


def test_a_limit_on_file_size_is_told_like_a_full_disk(tmp_path: Path) -> None:
    Store(tmp_path).save_state(KEY, generation(0))
    answers = FORKS.Queue()
    process = FORKS.Process(target=save_with_limit, args=(str(tmp_path), answers))
    process.start()
    error = answers.get(timeout=60)
    process.join()
    assert_tells_to_free_space(error, tmp_path)
    assert_whole(Store(tmp_path).load_state(KEY))
    assert files(str(tmp_path)) == [f"{KEY}.state"]


def use_as_nobody(root: str, answers: Any) -> None:
    store = Store(root)
    store.save_state("00", {})  # imports everything while this user still may
    if os.getuid() == 0:
        os.setuid(65534)
    attempts: list[Callable[[], object]] = [lambda: store.save_state(KEY, {}), lambda: store.load_state(KEY)]
    for attempt in attempts:
        try:
            answers.put(attempt())
        except Co2lError as error:
            answers.put(str(error))


def test_refused_permission_is_told_with_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as root:  # not below tmp_path, which another user cannot even enter
        Store(root).save_state(KEY, example())
        Path(root).chmod(0o755)
        (Path(root) / f"{KEY}.state").chmod(0)
        (Path(root) / "ab12").chmod(0o555)
        answers = FORKS.Queue()
        process = FORKS.Process(target=use_as_nobody, args=(root, answers))
        process.start()
        for doing in ("write", "read"):
            error = answers.get(timeout=60)
            assert "Permission denied" in error
            assert f"allow this user to {doing} there and run the same command again" in error
            assert "\n" not in error
        process.join()
        (Path(root) / "ab12").chmod(0o755)
