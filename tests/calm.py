"""One thread for each library, which reads this once when it is loaded, and in all processes started from here.

The numbers in tests are so few that a second thread only waits, and does so at full speed. Until all tests are
collected nobody looks for garbage either: what is imported stays, and looking through it took a sixth of the time.
"""

from __future__ import annotations

import gc
import os

gc.disable()
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
