"""Where a run computes: the accelerator if there is one, else the CPU."""

from __future__ import annotations

import torch

from co2l.errors import Co2lError


def choose_device(name: str) -> torch.device:
    """`auto`, or a torch device name that must be usable on this machine."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise Co2lError(f"device '{name}' cannot be used ({reason})", fix="try --device auto or cpu") from None
    if device.type == "cuda":
        torch.backends.cudnn.deterministic = True  # the same bits every time
    return device
