"""Where a run computes, and what its bits depend on there: every device is chosen and prepared here.

No GPU has run this yet: what it asks of one is checked with mocks (docs/gpus.md).
"""

from __future__ import annotations

import os
from typing import Any

import torch

from co2l.errors import Co2lError, headline
from co2l.learning.cards import GIB, Precision

# cuBLAS may add up in another order each time unless its workspace is fixed; it reads this when CUDA is first used
WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
UNFIT = {"mps": "it has no float64, which buffers need", "meta": "it holds no numbers"}


def choose_device(name: str) -> torch.device:
    """`auto`, or a torch device name that must be usable on this machine; ready for the same bits every time."""
    os.environ[WORKSPACE[0]] = WORKSPACE[1]
    device = _accelerator() if name == "auto" else _named(name)
    prepare(device)
    return device


def device_for(gpus: float) -> str:
    """The device of a trial with so many GPUs: without any it is the CPU, whatever the trial could see."""
    return "auto" if gpus else "cpu"


def _accelerator() -> torch.device:
    """The accelerator if there is one that serves, else the CPU."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.device("cpu") if found is None or found.type == "mps" else found


def _named(name: str) -> torch.device:
    try:
        device = torch.device(name)
        if device.type in UNFIT:
            raise Co2lError(f"device '{name}' cannot be used: {UNFIT[device.type]}", fix="use --device cpu")
        torch.empty(1, device=device)
    except Co2lError:
        raise
    except Exception as error:  # every backend of torch refuses in its own way
        reason = headline(error)
        raise Co2lError(f"device '{name}' cannot be used ({reason})", fix="try --device auto or cpu") from None
    return device


def prepare(device: torch.device, precision: Precision = "fp32") -> None:
    """The same bits every time on `device`, in this precision; whatever a container or an earlier trial had set."""
    if device.type != "cuda":
        return
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    # only warnings: torch calls max-pooling's backward pass nondeterministic, which it is if windows overlap
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic: Any = torch.utils.deterministic  # has no types
    deterministic.fill_uninitialized_memory = False  # it would cost a launch for every empty tensor
    tf32 = precision == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32


def numerics(device: torch.device) -> str:
    """What the bits of a run depend on beside its settings and data: states with another answer are never mixed."""
    if device.type == "cpu":  # sums depend on how they are split
        return f"cpu, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    return f"{device.type}, {card(device)[0]}"


def card(device: torch.device) -> tuple[str, float]:
    """The accelerator's name and its memory in GiB, 0 if unknown."""
    if device.type != "cuda":
        return device.type, 0.0
    properties = torch.cuda.get_device_properties(device)
    return properties.name, properties.total_memory / GIB
