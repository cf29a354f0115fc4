"""Hyperparameter search for contrastive continual learning (Co²L)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036  pip refuses these; in a clone, this line comes before a SyntaxError
    sys.stderr.write("co2l: this is Python %d.%d; co2l needs 3.11 or later\n" % sys.version_info[:2])  # noqa: UP031
    sys.exit(2)

if sys.argv[:1] == ["-m"] or sys.argv[0].endswith("/co2l"):
    # Python's, while it looks for the module, or our script: a command begins, and Ctrl-C has nothing to save
    import os
    import signal

    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

if TYPE_CHECKING:
    from pathlib import Path

    from co2l.reporting.notebook import Study

__version__ = "0.1.0"
__all__ = ["__version__", "load_study"]


def load_study(root: str | Path, name: str) -> Study:
    """Open a study of `co2l.tune` or `co2l.evaluate`, read-only: `load_study("runs", "seq_digits").best()`.

    `root` is the folder that the command wrote to (`--root`), or the URL of a storage such as postgresql://….
    """
    from co2l.reporting import notebook  # torch and Optuna take seconds to load

    return notebook.load_study(root, name)
