"""How libraries are loaded: without looking for garbage meanwhile, as what an import makes stays.

Ray, torch and MLflow make so many objects that Python spends a tenth of their imports looking through them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Inside, Python does not look for garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:  # else somebody further out is loading, or wants it so
            gc.enable()
