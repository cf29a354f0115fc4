"""Data for tests: the real datasets where they can be had, and small ones in the same layouts everywhere."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import calm  # noqa: F401  before anything loads a library that computes
import fake_device  # noqa: F401  before anything computes a gradient
import numpy as np
import pytest
import torch
from alembic.config import Config
from alembic.script import ScriptDirectory
from commands import fork_server
from hypothesis import settings
from PIL import Image

from co2l.search.running.local_ray import leave_out_helpers

settings.register_profile("short", max_examples=50, deadline=None)
settings.register_profile("long", max_examples=1000, deadline=None)  # pytest --hypothesis-profile long
settings.load_profile("short")

pytest_plugins = ["co2l.testing.fixtures"]
TINY = "tiny-imagenet-200"
LAYOUTS = {"mnist": "MNIST/raw", "cifar10": "cifar-10-batches-py", "tiny-sample": TINY}
torch.set_num_threads(1)  # the networks of the tests are so small that a second thread only waits
os.environ["MLFLOW_LOGGING_LEVEL"] = "CRITICAL"  # a command sets these two before it imports MLflow
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script that starts us with & would have it ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # so would nohup
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  Ray's name; with its 15 a trial starves beside other tests
STARTING = {"shared_ray", "server"}  # fixtures
MEMORY, ENOUGH = Path("/dev/shm"), 4 * 2**30
BUILDER = Path(__file__).resolve().parents[2] / "shared" / "tools" / "get_data.py"


def _holds_files(memory: Path) -> bool:
    """Whether the tests' files fit there and programs among them may run."""
    if not (memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)):
        return False
    found = os.statvfs(memory)
    return found.f_bavail * found.f_frsize >= ENOUGH and not found.f_flag & os.ST_NOEXEC


if _holds_files(MEMORY):  # databases and checkpoints wait for the disk thousands of times: a third of the tests' time
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

_read_scripts, _scripts = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()


def _read_once(config: Config) -> ScriptDirectory:
    location = config.get_main_option("script_location")
    if location not in _scripts:
        _scripts[location] = _read_scripts(config)
    return _scripts[location]


# Optuna and MLflow read all their migrations for every database that they open: a tenth of a second, hundreds of times
ScriptDirectory.from_config = staticmethod(_read_once)  # type: ignore[method-assign, assignment]


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in e2e or starts Ray or a server, and run it first: it takes longest, and nothing should be left
    with it in the end."""
    for item in items:
        if "e2e" in item.path.parts or STARTING.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("e2e")
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is there once all tests are collected is no garbage, and is not looked through again."""
    found = yield
    gc.freeze()
    gc.enable()
    return found


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.items:
        fork_server()


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[None]:
    """One Ray for all searches in this process: a command finds it running and leaves it so.

    It runs one trial at a time: a second worker would take longer to start than the few trials of a test.
    """
    import co2l.search.running.engine as engine  # sets Ray's variables before its import

    leave_out_helpers()
    ray = engine.ray
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def real_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with the real files, as links: what a test writes beside them does not stay."""
    given = os.environ.get("CO2L_DATA")
    source = Path(given).absolute() if given else _built()
    root = tmp_path_factory.mktemp("real")
    for layout in LAYOUTS.values():
        if not (source / layout).is_dir():
            pytest.skip(f"real data: {layout} is not below {source}")
        (root / layout).parent.mkdir(exist_ok=True)
        (root / layout).symlink_to(source / layout)
    if (source / "cifar-100-python").is_dir():
        (root / "cifar-100-python").symlink_to(source / "cifar-100-python")
    else:
        write_cifar100(root, np.random.default_rng(8))
    return root


def _built() -> Path:
    """Built once per machine and user."""
    if not BUILDER.is_file():
        pytest.skip("real data: set CO2L_DATA to a folder that holds them")
    kept = Path(tempfile.gettempdir()) / f"co2l-test-data-{os.getuid()}"
    if kept.is_dir():
        return kept
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        new = Path(folder) / "data"
        done = subprocess.run(
            [sys.executable, str(BUILDER), str(new), *LAYOUTS], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"real data: {BUILDER.name} failed: {done.stderr.strip()[-300:]}")
        if not kept.is_dir():  # else another session was faster
            new.rename(kept)
    return kept


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with a few samples of every dataset, in the layouts of the real ones. Not to be changed."""
    root = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(7)
    write_cifar10(root, rng)
    write_mnist(root, rng)
    write_tiny_imagenet(root, rng)
    write_cifar100(root, rng)
    return root


@pytest.fixture(scope="session")
def whole_cifar100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many images as the real dataset has: 500 and 100 of each class."""
    root = tmp_path_factory.mktemp("whole")
    write_cifar100(root, np.random.default_rng(0), 50_000, 10_000)
    return root


@pytest.fixture
def own_data(small_data: Path, tmp_path: Path) -> Path:
    """The same, to be changed; but Tiny-ImageNet's thousand files are a link."""
    copy = Path(shutil.copytree(small_data, tmp_path / "data", ignore=shutil.ignore_patterns("co2l-cache", TINY)))
    (copy / TINY).symlink_to(small_data / TINY)
    return copy


@pytest.fixture
def own_tiny_imagenet(own_data: Path, small_data: Path) -> Path:
    """The same with those files."""
    (own_data / TINY).unlink()
    shutil.copytree(small_data / TINY, own_data / TINY)
    return own_data


def write_cifar10(root: Path, rng: np.random.Generator) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        pixels = rng.integers(0, 256, (40, 3072), dtype=np.uint8)
        labels = rng.permutation(np.arange(40) % 10).tolist()
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": labels}, protocol=4))


def write_cifar100(root: Path, rng: np.random.Generator, train: int = 600, test: int = 200) -> None:
    """All classes equally often, in the layout of the real files, which cannot be had everywhere."""
    folder = root / "cifar-100-python"
    folder.mkdir()
    for name, n in (("train", train), ("test", test)):
        fine = rng.permutation(np.arange(n) % 100)
        pixels = rng.integers(0, 256, (n, 3072), dtype=np.uint8)
        batch = {"data": pixels, "fine_labels": fine.tolist(), "coarse_labels": (fine // 5).tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=4))


def write_mnist(root: Path, rng: np.random.Generator) -> None:
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, n in (("train", 200), ("t10k", 50)):
        images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", rng.permutation(np.arange(n) % 10).astype(np.uint8))


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    path.write_bytes(header + array.tobytes())


def write_tiny_imagenet(root: Path, rng: np.random.Generator) -> None:
    """200 classes, not in alphabetical order, with 4 training images and 1 test image; every third is gray."""
    folder = root / TINY
    (folder / "val" / "images").mkdir(parents=True)
    wnids = [f"n{number:08d}" for number in rng.permutation(200) * 7]
    (folder / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in wnids))
    annotations = []
    for i, wnid in enumerate(rng.permutation(wnids)):
        (folder / "train" / wnid / "images").mkdir(parents=True)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
        files = [folder / "train" / wnid / "images" / f"{wnid}_{k}.JPEG" for k in range(4)]
        for k, file in enumerate([*files, folder / "val" / "images" / f"val_{i}.JPEG"]):
            shape = (64, 64) if (i + k) % 3 == 0 else (64, 64, 3)
            Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(file, "JPEG")
        annotations.append(f"val_{i}.JPEG\t{wnid}\t0\t0\t63\t63\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(annotations))
