"""Hyperparameter search for contrastive continual learning (Co²L)."""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] or sys.argv[0].endswith("/co2l"):
    # Python's, while it looks for the module, or our script: a command begins, and Ctrl-C has nothing to save
    import _signal  # type: ignore[import-not-found]  # built in; `signal` itself imports for some milliseconds
    import os

    _signal.signal(_signal.SIGINT, lambda *_: os._exit(130))

from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036  pip refuses these; in a clone, this line comes before a SyntaxError
    sys.stderr.write("co2l: this is Python %d.%d; co2l needs 3.11 or later\n" % sys.version_info[:2])  # noqa: UP031
    sys.exit(2)

if TYPE_CHECKING:
    from co2l.api import load_study, run_evaluation, run_search, run_training, studies

__version__ = "0.1.0"
__all__ = ["__version__", "load_study", "run_evaluation", "run_search", "run_training", "studies"]


def __getattr__(name: str) -> Any:
    """The public functions, when they are first asked for: torch and Optuna take seconds to load."""
    if name not in __all__:
        raise AttributeError(f"module 'co2l' has no attribute '{name}'")
    from co2l import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return __all__
