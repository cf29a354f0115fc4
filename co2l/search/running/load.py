"""How busy a trial keeps its machine: processor, memory and GPU of this process, measured where it runs.

MLflow measures only the process that talks to it, which is the driver. The names are those that its UI lists under
*System metrics*.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time

import torch

MEGABYTE = 1 << 20
UNIT = 1 if sys.platform == "darwin" else 1024  # of the peak that the system tells


class Load:
    """Measures from one reading to the next; a reading takes microseconds."""

    def __init__(self) -> None:
        self._at, self._busy = time.monotonic(), time.process_time()

    def read(self) -> dict[str, float]:
        """Since the last reading: 100% is one core. Memory is the process's peak."""
        at, busy = time.monotonic(), time.process_time()
        elapsed, worked = at - self._at, busy - self._busy
        self._at, self._busy = at, busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT / MEGABYTE
        found = {"system/cpu_utilization_percentage": 100 * worked / max(elapsed, 1e-9)}
        found["system/memory_peak_megabytes"] = peak
        return found | _gpu()


def _gpu() -> dict[str, float]:
    """Of the trial's first GPU; its utilisation only where NVIDIA's library can be asked."""
    if not torch.cuda.is_available():
        return {}
    found = {"system/gpu_memory_peak_megabytes": torch.cuda.max_memory_allocated() / MEGABYTE}
    with contextlib.suppress(ModuleNotFoundError, RuntimeError):  # torch asks through a package that need not be there
        found["system/gpu_utilization_percentage"] = float(torch.cuda.utilization())
    return found
