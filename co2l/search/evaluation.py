"""An evaluation: chosen configurations with several seeds each, trained on all training data, judged on test data.

It is a space like any other, and so the same service runs it. Only `co2l.evaluate` makes one: a file that is read as
a space to be searched never becomes an evaluation.
"""

from __future__ import annotations

import functools
from typing import Any

from co2l.data.streams import Split
from co2l.search.space import Space


class Evaluation(Space):
    @functools.cached_property
    def split(self) -> Split:
        """All training samples, judged on the test samples."""
        return Split("evaluation")

    def canonical(self) -> dict[str, Any]:
        """More seeds continue an evaluation, and no validation samples are held back."""
        plain = super().canonical()
        return {"kind": "evaluation", **{name: plain[name] for name in plain if name not in ("seeds", "validation")}}
