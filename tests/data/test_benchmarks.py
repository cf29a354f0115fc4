"""Each dataset is read as it is on disk, and what is missing or damaged is said in one line."""

from __future__ import annotations

import gzip
import pickle
import shutil
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from co2l.data.benchmarks import BENCHMARKS, benchmark, normalise
from co2l.data.sources import data_root, load
from co2l.data.torchvision_import import torchvision
from co2l.errors import Co2lError

CIFAR, RAW, TINY = "cifar-10-batches-py", "MNIST/raw", "tiny-imagenet-200"


@pytest.fixture(params=["small", "real"])
def root(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(f"{request.param}_data")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every download is refused at once: nobody listens there."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # it would remember the proxy beyond this test


def failure(source: str, part: str, root: Path) -> str:
    with pytest.raises(Co2lError) as raised:
        load(source, part, root)
    line = str(raised.value)
    assert "\n" not in line
    return line


# What is read


@pytest.mark.parametrize("train", [True, False])
def test_cifar10_equals_torchvisions_reading(real_data: Path, train: bool) -> None:
    theirs = torchvision.datasets.CIFAR10(real_data, train=train)
    ours = load("cifar10", "train" if train else "test", real_data)
    assert np.array_equal(ours.images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert ours.labels.tolist() == theirs.targets


def test_cifar10_is_read_in_the_order_of_its_batches(small_data: Path) -> None:
    # The files were written by pickle itself, so it may read them here.
    batches = [pickle.loads((small_data / CIFAR / f"data_batch_{i}").read_bytes()) for i in range(1, 6)]
    ours = load("cifar10", "train", small_data)
    assert ours.labels.tolist() == [label for batch in batches for label in batch["labels"]]
    red_then_green_then_blue = np.concatenate([batch["data"] for batch in batches])
    assert np.array_equal(ours.images.flatten(1).numpy(), red_then_green_then_blue)


@pytest.mark.parametrize("train", [True, False])
def test_mnist_equals_torchvisions_reading(root: Path, train: bool) -> None:
    theirs = torchvision.datasets.MNIST(root, train=train)
    ours = load("mnist", "train" if train else "test", root)
    assert torch.equal(ours.images[:, 0], theirs.data)
    assert torch.equal(ours.labels, theirs.targets)


def test_packed_mnist_is_read_too(own_data: Path) -> None:
    plain = load("mnist", "train", own_data)
    for file in list((own_data / RAW).iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert load("mnist", "train", own_data).fingerprint == plain.fingerprint


def test_tiny_imagenets_class_i_is_line_i_of_wnids(root: Path) -> None:
    folder = root / TINY
    wnids = (folder / "wnids.txt").read_text().splitlines()
    assert wnids != sorted(wnids)
    ours = load("tiny_imagenet", "train", root)
    n = len(ours.labels) // 200
    assert torch.bincount(ours.labels).tolist() == [n] * 200
    for i in (0, 1, 57, 199):
        files = (folder / "train" / wnids[i] / "images").iterdir()
        theirs = {np.asarray(Image.open(file).convert("RGB")).tobytes() for file in files}
        images = ours.images[ours.labels == i].permute(0, 2, 3, 1).contiguous().numpy()
        assert {image.tobytes() for image in images} == theirs


def test_tiny_imagenets_test_set_is_its_annotated_val_set(root: Path) -> None:
    folder = root / TINY
    wnids = (folder / "wnids.txt").read_text().splitlines()
    lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
    ours = load("tiny_imagenet", "test", root)
    assert [wnids[label] for label in ours.labels] == [line.split("\t")[1] for line in lines]
    for i in range(0, len(lines), 37):
        image = Image.open(folder / "val" / "images" / lines[i].split("\t")[0]).convert("RGB")
        assert np.array_equal(ours.images[i].permute(1, 2, 0).numpy(), np.asarray(image))


def test_gray_images_have_three_equal_channels(root: Path) -> None:
    folder = root / TINY
    lines = (folder / "val" / "val_annotations.txt").read_text().splitlines()
    modes = [Image.open(folder / "val" / "images" / line.split("\t")[0]).mode for line in lines]
    gray = torch.tensor([mode == "L" for mode in modes])
    assert gray.any()
    images = load("tiny_imagenet", "test", root).images[gray]
    assert torch.equal(images[:, 0], images[:, 1])
    assert torch.equal(images[:, 0], images[:, 2])


@pytest.mark.parametrize("part", ["train", "test"])
def test_tiny_imagenets_archive_equals_its_folder(own_data: Path, part: str) -> None:
    folder = load("tiny_imagenet", part, own_data)
    shutil.make_archive(str(own_data / TINY), "zip", own_data, TINY)
    shutil.rmtree(own_data / TINY)
    assert load("tiny_imagenet", part, own_data).fingerprint == folder.fingerprint


def test_digits_are_those_of_scikit_learn_cut_in_two(tmp_path: Path) -> None:
    pixels, labels = load_digits(return_X_y=True)
    train, test = (load("digits", part, tmp_path) for part in ("train", "test"))
    ours = torch.cat([train.images, test.images]).flatten(1)
    theirs = [(tuple(round(v * 255 / 16) for v in row), label) for row, label in zip(pixels, labels, strict=True)]
    assert sorted(
        (tuple(row), label)
        for row, label in zip(ours.tolist(), torch.cat([train.labels, test.labels]).tolist(), strict=True)
    ) == sorted(theirs)
    for digit, n in enumerate(np.bincount(labels)):
        assert abs((test.labels == digit).sum().item() - n / 5) <= 0.5
    assert list(tmp_path.iterdir()) == []  # needs no data root


# What is missing or damaged


@pytest.mark.parametrize(
    ("source", "file"), [("cifar10", f"{CIFAR}/data_batch_3"), ("mnist", f"{RAW}/train-labels-idx1-ubyte")]
)
def test_missing_without_network_says_what_where_and_what_to_do(
    own_data: Path, offline: None, source: str, file: str
) -> None:
    path = own_data / file
    path.unlink()
    before = sorted(own_data.rglob("*"))
    line = failure(source, "train", own_data)
    assert line.startswith(f"{path.parent}: {path.name} is missing and ")
    assert "--data / CO2L_DATA" in line
    assert sorted(own_data.rglob("*")) == before  # no half download is left


def test_a_download_goes_where_the_files_are_looked_for(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_here(root: str, *, download: bool) -> None:
        assert download
        shutil.copytree(small_data / CIFAR, Path(root) / CIFAR)

    monkeypatch.setattr(torchvision.datasets, "CIFAR10", from_here)
    new = tmp_path / "new"
    assert load("cifar10", "test", new).fingerprint == load("cifar10", "test", small_data).fingerprint
    assert [path.name for path in new.iterdir() if path.name != "co2l-cache"] == [CIFAR]


def test_missing_tiny_imagenet_says_what_where_and_what_to_do(own_data: Path) -> None:
    shutil.rmtree(own_data / TINY / "val")
    assert "Tiny-ImageNet is missing (val/val_annotations.txt)" in failure("tiny_imagenet", "test", own_data)
    shutil.rmtree(own_data / TINY)
    line = failure("tiny_imagenet", "train", own_data)
    assert line.startswith(f"{own_data / TINY}: Tiny-ImageNet is missing")
    assert "--data / CO2L_DATA" in line


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scribble(file: Path) -> None:
    file.write_bytes(b"<html>404</html>" * 20)


@pytest.mark.parametrize("damage", [cut, scribble])
@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("cifar10", f"{CIFAR}/data_batch_2"),
        ("mnist", f"{RAW}/train-images-idx3-ubyte"),
        ("mnist", f"{RAW}/train-labels-idx1-ubyte"),
        ("tiny_imagenet", f"{TINY}/train/*/images/*_2.JPEG"),
    ],
)
def test_a_damaged_file_is_named(own_data: Path, source: str, name: str, damage: object) -> None:
    file = sorted(own_data.glob(name))[0]
    damage(file)
    assert failure(source, "train", own_data).startswith(f"{file}: not ")


@pytest.mark.parametrize("damage", [cut, scribble])
@pytest.mark.parametrize("name", [f"{TINY}.zip", f"{RAW}/train-images-idx3-ubyte.gz"])
def test_a_damaged_archive_is_named(own_data: Path, name: str, damage: object) -> None:
    shutil.make_archive(str(own_data / TINY), "zip", own_data, TINY)
    shutil.rmtree(own_data / TINY)
    images = own_data / RAW / "train-images-idx3-ubyte"
    images.with_name(f"{images.name}.gz").write_bytes(gzip.compress(images.read_bytes()))
    images.unlink()
    damage(own_data / name)
    source = "mnist" if name.endswith("gz") else "tiny_imagenet"
    assert failure(source, "train", own_data).startswith(f"{own_data / name}: not ")


def test_a_partly_unpacked_tiny_imagenet_is_refused(own_data: Path) -> None:
    sorted((own_data / TINY).glob("train/*/images/*_2.JPEG"))[0].unlink()
    assert "3 to 4 images each" in failure("tiny_imagenet", "train", own_data)


@pytest.mark.parametrize("labels", [[*range(10)] * 3, [10] * 40, [-1] * 40])
def test_labels_that_do_not_fit_are_refused(own_data: Path, labels: list[int]) -> None:
    file = own_data / CIFAR / "data_batch_4"
    file.write_bytes(pickle.dumps({"data": np.zeros((40, 3072), np.uint8), "labels": labels}))
    assert failure("cifar10", "train", own_data).startswith(f"{file}: not ")


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("trapped"),)


def test_a_batch_cannot_run_code(own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = own_data / CIFAR / "data_batch_1"
    file.write_bytes(pickle.dumps({"data": Trap(), "labels": []}))
    assert failure("cifar10", "train", own_data).startswith(f"{file}: not ")
    assert not Path("trapped").exists()


# The registry and the data root


def test_the_registry_agrees_with_the_paper() -> None:
    seen = {b.name: (b.scenario, b.tasks, b.classes_per_task, b.num_classes) for b in BENCHMARKS.values()}
    assert seen == {
        "seq_cifar10": ("class", 5, 2, 10),
        "seq_tiny_imagenet": ("class", 10, 20, 200),
        "r_mnist": ("domain", 20, 10, 10),
        "seq_digits": ("class", 5, 2, 10),
        "r_digits": ("domain", 5, 10, 10),
    }
    scales = {name: BENCHMARKS[name].augmentation.crop_scale for name in seen}
    assert [scales[n] for n in ("seq_cifar10", "seq_tiny_imagenet", "r_mnist")] == [(0.2, 1), (0.1, 1), (0.7, 1)]
    assert {name for name in seen if BENCHMARKS[name].augmentation.blur} == {"seq_tiny_imagenet"}


def test_an_unknown_benchmark_answers_with_the_closest() -> None:
    with pytest.raises(Co2lError, match="did you mean 'seq_cifar10'"):
        benchmark("seq_cifar_10")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_normalising_equals_torchvisions(name: str) -> None:
    chosen = benchmark(name)
    images = torch.randint(0, 256, (6, *chosen.image_shape), dtype=torch.uint8)
    values = images.float() / 255
    theirs = torchvision.transforms.functional.normalize(values, chosen.mean, chosen.std)
    torch.testing.assert_close(normalise(values, chosen), theirs)
    torch.testing.assert_close(normalise(images, chosen), theirs)


def test_data_root_is_the_argument_or_the_environment_or_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CO2L_DATA", "elsewhere")
    assert data_root("there") == tmp_path / "there"
    assert data_root(None) == tmp_path / "elsewhere"
    monkeypatch.delenv("CO2L_DATA")
    assert data_root(None) == tmp_path / "data"
