"""An entry is built once, shared by mapping, checked, and never half there."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from co2l.data.cache import Arrays, cached, in_memory
from co2l.errors import Co2lError

IMAGES = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8), dtype=np.uint8)
LABELS = np.arange(50, dtype=np.int64) % 10


class Builder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> tuple[np.ndarray, np.ndarray]:
        self.calls += 1
        return IMAGES.copy(), LABELS.copy()


def assert_right(arrays: Arrays) -> None:
    assert np.array_equal(arrays.images.numpy(), IMAGES)
    assert np.array_equal(arrays.labels.numpy(), LABELS)
    assert arrays.images.dtype == torch.uint8
    assert arrays.labels.dtype == torch.int64
    assert arrays.fingerprint == in_memory(IMAGES, LABELS).fingerprint


def test_an_entry_is_built_once(tmp_path: Path) -> None:
    build = Builder()
    for _ in range(3):
        assert_right(cached(tmp_path / "cache", "x-train", build))
    assert build.calls == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [
        "x-train.json",
        "x-train.labels.npy",
        "x-train.npy",
    ]
    assert np.array_equal(np.load(tmp_path / "cache" / "x-train.npy"), IMAGES)


def test_the_fingerprint_is_the_contents_sha256() -> None:
    text = b"|u1(50, 3, 8, 8)" + IMAGES.tobytes() + b"<i8(50,)" + LABELS.tobytes()
    assert in_memory(IMAGES, LABELS).fingerprint == hashlib.sha256(text).hexdigest()
    other = LABELS.copy()
    other[7] = 3
    assert in_memory(IMAGES, other).fingerprint != in_memory(IMAGES, LABELS).fingerprint


@pytest.mark.parametrize("name", ["x.npy", "x.labels.npy", "x.json"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "deleted"])
def test_a_damaged_entry_is_built_again(tmp_path: Path, name: str, damage: str) -> None:
    build = Builder()
    cached(tmp_path, "x", build)
    file = tmp_path / name
    data = bytearray(file.read_bytes())
    if damage == "changed":
        data[0 if name == "x.json" else -10] ^= 0x11
    file.unlink()
    if damage != "deleted":
        file.write_bytes({"cut": data[: len(data) // 2], "emptied": b"", "changed": data}[damage])
    assert_right(cached(tmp_path, "x", build))
    assert_right(cached(tmp_path, "x", build))
    assert build.calls == 2


def test_a_copied_entry_is_still_good(tmp_path: Path) -> None:
    build = Builder()
    cached(tmp_path / "one", "x", build)
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)  # with new times
    assert_right(cached(tmp_path / "two", "x", build))
    assert build.calls == 1


def test_writing_to_the_images_does_not_reach_the_file(tmp_path: Path) -> None:
    cached(tmp_path, "x", Builder()).images.zero_()
    assert_right(cached(tmp_path, "x", Builder()))


READER = """
import sys
from pathlib import Path
from co2l.data.cache import cached
arrays = cached(Path(sys.argv[1]), "big", lambda: sys.exit("built again"))
total = int(arrays.images.sum())
lines = Path("/proc/self/smaps").read_text().split("big.npy")[1].splitlines()
private = [int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))][:2]
resident = [int(line.split()[1]) for line in lines if line.startswith("Rss:")][0]
print(total, resident, sum(private), flush=True)
"""


@pytest.mark.e2e
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs the kernel's account of mappings")
def test_processes_share_the_pages(tmp_path: Path) -> None:
    images = np.full((4096, 1, 64, 64), 3, np.uint8)  # 16 MB
    here = cached(tmp_path, "big", lambda: (images, np.zeros(4096, np.int64)))
    assert int(here.images.sum()) == 3 * images.size  # every page is mapped here, too
    done = subprocess.run([sys.executable, "-c", READER, str(tmp_path)], capture_output=True, text=True, check=True)
    total, resident, private = map(int, done.stdout.split())
    assert total == 3 * images.size
    assert resident >= images.nbytes // 1024
    assert private < 100  # kB: its other pages are the ones mapped here


WRITER = """
import sys
from pathlib import Path
import numpy as np
from co2l.data.cache import cached
rng = np.random.default_rng(0)
build = lambda: (rng.integers(0, 256, (2000, 3, 32, 32), dtype=np.uint8), np.arange(2000))
sys.stdin.readline()
print(cached(Path(sys.argv[1]), "x", build).fingerprint)
"""


@pytest.mark.e2e
def test_builders_at_once_do_no_harm(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    found = {writer.communicate()[0] for writer in writers}
    assert len(found) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.labels.npy", "x.npy"]


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder this process may read but not write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # root may write anywhere, so act as another user
            os.seteuid(65534)
        try:
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o755)


def test_a_read_only_root_is_no_error(read_only: Path) -> None:
    build = Builder()
    assert_right(cached(read_only / "cache", "x", build))
    assert_right(cached(read_only / "cache", "x", build))
    assert build.calls == 2
    assert list(read_only.iterdir()) == []


def test_a_disk_that_takes_no_more_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(Co2lError) as raised:
            cached(tmp_path, "x", Builder())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(raised.value).startswith(f"{tmp_path}: cannot write the decoded images, 0 MB (File too large); free")
    assert list(tmp_path.iterdir()) == []
    assert_right(cached(tmp_path, "x", Builder()))


def test_no_space_left_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Co2lError, match="No space left on device"):
        cached(tmp_path, "x", Builder())
    assert list(tmp_path.iterdir()) == []
