"""The one exception for errors a user can cause: what is wrong, where, and how to fix it."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from functools import partial
from typing import Any

LONGEST = 294  # characters of a message; with the program's name 300


class Co2lError(Exception):
    """Every command prints it as one line, without a traceback, and exits with code 2."""

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(what)

    def __reduce__(self) -> tuple[Any, ...]:  # all three parts survive the trip to another process
        return partial(type(self), where=self.where, fix=self.fix), (self.what,)

    def __str__(self) -> str:
        return self._line(self.what, self.fix)

    def short(self) -> str:
        """At most `LONGEST` characters: what others wrote and lists are cut before the path that is to be looked at."""
        spare = LONGEST - len(str(self)) + len(one_line(self.what))
        what = shortened(one_line(self.what), max(100, spare))
        spare = LONGEST - len(self._line(what, self.fix)) + len(one_line(self.fix))
        return shortened(self._line(what, shortened(one_line(self.fix), max(100, spare))), LONGEST)

    def _line(self, what: str, fix: str) -> str:
        where, what, fix = map(one_line, (self.where, what, fix))
        line = f"{where}: {what}" if where else what
        return f"{line}; {fix}" if fix else line


class OutsideError(Co2lError):
    """The store, a disk, the network or a permission refused: no fault of the trial that met it."""


def refused(error: OSError) -> OutsideError:
    """The system's own words, and the file that they are about."""
    what = error.strerror or str(error) or type(error).__name__
    fix = "see to that, and run the same command again"
    return OutsideError(what, where=str(error.filename or ""), fix=fix)


def from_outside(error: BaseException | None) -> bool:
    """Whether the world around a trial is to blame: then the trial is pending again and no attempt is used up."""
    while error is not None:
        if isinstance(error, OutsideError | OSError):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def one_line(text: object) -> str:
    """The text as it may be printed: without passwords, and control characters spelled out, as strangers wrote them."""
    line = without_passwords(" ".join(str(text).split()))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def commands_terminals(text: str) -> bool:
    """Whether it has control characters, which colour a terminal or worse, or bytes that are no text."""
    return any(unicodedata.category(c) in ("Cc", "Cs") for c in text)


def shortened(line: str, longest: int) -> str:
    """The beginning and the end of a line that is too long."""
    if len(line) <= longest:
        return line
    end = longest // 3
    return f"{line[: longest - end - 3]} … {line[-end:]}"


def without_passwords(text: str) -> str:
    """The text with *** for the password in any URL, even one that is no proper URL: a slash in it, or no scheme."""
    text = re.sub(r"(\w:/*[^\s:@/]*:)\S+@|\b([^\s:@/'\"]+:)(?!/)\S+@", r"\1\2***@", text)
    return re.sub(r"(?i)([?&][\w-]*(?:password|passwd|pwd|token|secret|key)[\w-]*=)[^&\s'\"]+", r"\1***", text)


def url_shown(url: str) -> str:
    """What was given as a URL, as it may be printed: all before its last @ may belong to a password."""
    return without_passwords(re.sub(r"(?s)^((?:[\w+.-]+:/+)?[^:@/]*:).*@", r"\1***@", url))


def headline(error: object) -> str:
    """The one line of an error or its text that says what happened: the last of a traceback, else the first."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__ if isinstance(error, BaseException) else "no reason given"
    return lines[-1 if lines[0].startswith("Traceback") else 0].strip()


def unknown(kind: str, name: str, valid: Iterable[str], *, where: str = "") -> Co2lError:
    """The error for a name that does not exist; it suggests the closest valid name, or lists all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1)
    fix = f"did you mean '{close[0]}'?" if close else f"valid are: {', '.join(names)}"
    return Co2lError(f"unknown {kind} '{name}'", where=where, fix=fix)
