"""What is likely to be regretted about a search, said before it starts: doubts about its trials, and a missing GPU.

It imports nothing slow, so that a missing GPU is said within a second.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from co2l.errors import Co2lError
from co2l.search.space.document import Document, read, shaped

if TYPE_CHECKING:
    from co2l.learning.advice import TaskSize
    from co2l.search.space.space import Space

DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/proc/driver/nvidia/gpus")


def space_advice(space: Space, sizes: Sequence[TaskSize] = ()) -> list[str]:
    """Every doubt about a trial once, however many trials share it."""
    from co2l.learning.advice import advice
    from co2l.search.space.plan import planned_trials

    return list(dict.fromkeys(line for trial in planned_trials(space) for line in advice(trial.config, sizes)))


def gpu_advice(gpus: float) -> list[str]:
    """Whether trials wait for a GPU that this machine does not have."""
    if not gpus or may_have_gpu():
        return []
    return [
        "a trial needs a GPU, and this machine has none; add --gpus-per-trial 0 to train on its CPU,"
        " or --address of a cluster"
    ]


def require_gpu(path: str, gpus: float | None) -> None:
    """Refuse a search here that would need a GPU; `gpus` per trial if they are given beside the space's file."""
    wanted = shaped(read(path), Document, path).resources.gpus if gpus is None else gpus
    for line in gpu_advice(wanted):
        what, _, fix = line.partition("; ")
        raise Co2lError(what, where="resources", fix=fix)


def may_have_gpu() -> bool:
    """False only if there surely is none; Ray finds out what it is."""
    if sys.platform != "linux" or os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("RAY_ADDRESS"):
        return True
    return any(Path(device).exists() for device in DEVICES) or shutil.which("nvidia-smi") is not None
