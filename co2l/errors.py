"""The one exception for what a user can cause: what was wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import partial
from typing import Any

CLUSTER_EXTRA = "pip install -c constraints.txt -e '.[cluster]'"  # in a clone; what one machine alone does not need


class Co2lError(Exception):
    """Printed by every command as one line without a traceback; the command then exits with code 2."""

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(what)

    def __reduce__(self) -> tuple[Any, ...]:  # an error that crosses processes keeps all three parts
        return partial(type(self), where=self.where, fix=self.fix), (self.what,)

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line}; {self.fix}" if self.fix else line


def unknown(kind: str, name: str, valid: Iterable[str], *, where: str = "") -> Co2lError:
    """The error for a name that does not exist, with the closest valid one or all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1)
    fix = f"did you mean '{close[0]}'?" if close else f"valid are: {', '.join(names)}"
    return Co2lError(f"unknown {kind} '{name}'", where=where, fix=fix)
