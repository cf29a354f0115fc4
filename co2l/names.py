"""What a study, an evaluation or a model may be called: it names files, rows and pages."""

from __future__ import annotations

import re

from co2l.errors import Co2lError

LONGEST = 100  # bytes: endings are added, and no file's name has more than 255


def check_name(name: str, where: str) -> str:
    """The name, if it is one."""
    if not re.fullmatch(r"\w[\w.+-]*", name):
        fix = "use letters, digits and . _ + -, and begin with a letter or digit"
    elif len(name.encode()) > LONGEST:
        fix = f"use at most {LONGEST} characters"
    else:
        return name
    raise Co2lError(f"'{name[:LONGEST]}' is no name", where=where, fix=fix)
