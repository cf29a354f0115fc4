"""How every command talks: errors as one line, plain logs where there is no terminal, documented exit codes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from co2l.errors import Co2lError, unknown

OK, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


class Help(argparse.RawDescriptionHelpFormatter):
    """One line per flag, so that the help of a command fits one screen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=118)


class Parser(argparse.ArgumentParser):
    """Wrong arguments are a user's error as any other: one line, and for a misspelled flag the right one.

    Flags are not abbreviated: a script means the same next year, and what is sent to a cluster the same there.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Help, "allow_abbrev": False, **options})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, rest = self.parse_known_args(args, namespace)
        if flags := [word.partition("=")[0] for word in rest if word.startswith("-")]:
            raise unknown("flag", flags[0], self._flags(), where=self.prog)
        if rest:
            self.error(f"'{rest[0]}' belongs to no flag")
        return known

    def error(self, message: str) -> NoReturn:
        raise Co2lError(message, where=self.prog, fix="--help shows how it is used")

    def _flags(self) -> set[str]:
        """Of this parser and those below it."""
        flags = {flag for action in self._actions for flag in action.option_strings}
        below = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return flags.union(*(parser._flags() for choices in below for parser in choices.values()))


def execute(command: Callable[[], int]) -> NoReturn:
    """Run a command's body and exit with its code; what a user can cause never ends in a traceback."""
    try:
        code = command()
    except Co2lError as error:
        print(f"co2l: {error}", file=sys.stderr)
        code = WRONG_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    sys.exit(code)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C or SIGTERM only makes the yielded function true; a second one ends at once."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
