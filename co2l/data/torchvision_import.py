"""torchvision, even where its compiled operators do not match the installed torch.

The wheel of the Python registry is linked to the CUDA build of torch. Beside a CPU-only torch its library of
operators does not load, and `import torchvision` then fails at the first operator it describes. Datasets and
transforms need none of these operators, so it is enough that the two it describes exist by name:

    from co2l.data.torchvision_import import torchvision
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

_library: Any = torch.library  # has no types
_schemas: Any = None  # the two names live as long as this object


def _import() -> Any:
    global _schemas
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    # Only now: a library that loads defines them itself.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # half-imported
    _schemas = _library.Library("torchvision", "FRAGMENT")
    _schemas.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _schemas.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")


torchvision = _import()
