"""Every way of choosing a device leaves it ready for the same bits, and one that cannot serve is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_runs import finish, short

from co2l.errors import Co2lError
from co2l.learning.device import choose_device, numerics, prepare


@pytest.fixture
def _flags() -> Iterator[None]:
    """As a container may have set them; put back afterwards."""
    before = (
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        torch.get_float32_matmul_precision(),
    )
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = False, True
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before[:2]
    torch.set_float32_matmul_precision(before[3])
    torch.backends.cudnn.allow_tf32 = before[2]


def pretend(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A machine with an accelerator of this kind."""
    empty = torch.empty
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device(kind))
    monkeypatch.setattr(torch, "empty", lambda *size, **_: empty(*size))


@pytest.mark.usefixtures("_flags")
@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:1"])
def test_however_cuda_is_chosen_its_bits_are_the_same_every_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "cuda")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert choose_device(name).type == "cuda"
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.usefixtures("_flags")
def test_tf32_is_on_where_it_is_asked_for_and_off_in_the_next_trial() -> None:
    for precision in ("tf32", "fp32", "tf32", "bf16"):
        prepare(torch.device("cuda"), precision)
        assert torch.backends.cudnn.allow_tf32 is (precision == "tf32")
        assert torch.backends.cuda.matmul.allow_tf32 is (precision == "tf32")


def test_auto_leaves_a_mac_to_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "mps")
    assert choose_device("auto") == torch.device("cpu")


def test_mps_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "mps")
    with pytest.raises(Co2lError) as caught:
        choose_device("mps")
    assert str(caught.value) == "device 'mps' cannot be used: it has no float64, which buffers need; use --device cpu"


def test_a_device_that_is_not_there_is_refused_in_one_line() -> None:
    with pytest.raises(Co2lError, match=r"^device 'cuda:9' cannot be used \(.*\); try --device auto or cpu$"):
        choose_device("cuda:9")


def test_states_of_another_number_of_threads_are_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over two threads is rounded otherwise than over one."""
    trained = []
    for threads in (1, 2, 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        trained.append(sum(finish(short(), tmp_path)[1]))
    assert trained == [6, 6, 0]


def test_numerics_name_what_sums_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    one = numerics(cpu)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert numerics(cpu) != one
    named = []
    for name in ("NVIDIA A10G", "NVIDIA A100-SXM4-40GB"):
        found = SimpleNamespace(name=name, total_memory=24 * 2**30)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, found=found: found)
        named.append(numerics(torch.device("cuda")))
    assert named == ["cuda, NVIDIA A10G", "cuda, NVIDIA A100-SXM4-40GB"]
