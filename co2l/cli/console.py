"""How every command talks: errors on one line, plain logs without a terminal, documented exit codes."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from co2l.errors import Co2lError, commands_terminals, refused, unknown

PRIVATE = 0o077  # the mask of files and folders that only their owner reads
ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
MAY_BE_EMPTY = "--from", "--allowed-hosts"  # which the files of a cluster fill from variables
OK, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


class Help(argparse.RawDescriptionHelpFormatter):
    """One line per flag, so a command's help fits on one screen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=118)


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments like any other user error: one line, with a suggestion for a misspelled flag.

    Flags cannot be abbreviated, so a script means the same next year, and the same on a cluster. With `below_help`,
    --help waits for the other flags: what is said below it may depend on them.
    """

    def __init__(
        self,
        *,
        below_help: Callable[[argparse.Namespace], str] | None = None,
        help_says: str = "",
        **options: Any,
    ) -> None:
        typed = {name: as_typed(text) for name, text in options.items() if name in ("prog", "usage", "epilog")}
        options = {"formatter_class": Help, "allow_abbrev": False, "add_help": below_help is None, **options, **typed}
        super().__init__(**options)
        self._below_help = below_help
        if below_help:
            self.add_argument("-h", "--help", action=_HelpInTheEnd, help=help_says)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        _check_surroundings()
        _check_words(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, rest = self.parse_known_args(args, namespace)
        if self._below_help and hasattr(known, _HelpInTheEnd.ASKED):
            below = self._below_help(known)
            print("\n".join(filter(None, [self.format_help(), below])), end="")
            self.exit()
        if flags := [word.partition("=")[0] for word in rest if word.startswith("-")]:
            raise unknown("flag", flags[0], self._flags(), where=self.prog)
        if rest:
            self.error(f"'{rest[0]}' belongs to no flag")
        return known

    def error(self, message: str) -> NoReturn:
        raise Co2lError(message, where=self.prog, fix="see --help")

    def _flags(self) -> set[str]:
        """The flags of this parser and its subcommands."""
        flags = {flag for action in self._actions for flag in action.option_strings}
        below = [action.choices for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return flags.union(*(parser._flags() for choices in below for parser in choices.values()))


class _HelpInTheEnd(argparse._HelpAction):
    """Only notes that help is asked for."""

    ASKED = "_help"

    def __call__(self, _parser: Any, namespace: argparse.Namespace, *_: Any) -> None:
        setattr(namespace, self.ASKED, True)


def _check_words(words: Sequence[str]) -> None:
    """Most words come back in what a command prints; one that is empty is more likely a variable without a value."""
    for before, word in zip(["", *words], words, strict=False):
        flag, _, value = word.partition("=") if re.match("--.*=", word, re.DOTALL) else (before, "", word)
        where = flag if flag.startswith("--") else ""
        _check_printable(value, where)
        if not value.strip() and where not in MAY_BE_EMPTY:
            raise Co2lError(f"'{value}' is empty", where=where, fix="give a value, or leave it out")


def _check_surroundings() -> None:
    """What stands in for words is printed as often as they are."""
    for name, value in os.environ.items():
        if name.startswith("CO2L_"):
            _check_printable(value, name)
    with suppress(FileNotFoundError):  # a folder that was removed meanwhile
        _check_printable(os.getcwd(), "the current folder")  # noqa: PTH109  a Path would hide what it cannot show


def _check_printable(value: str, where: str) -> None:
    if commands_terminals(value):
        fix = "leave out control characters, and bytes that are no text"
        raise Co2lError(f"'{value}' cannot be printed", where=where, fix=fix)


def by_console_script() -> bool:
    """Whether the command was typed as `co2l NAME` and not as `python -m co2l.NAME`."""
    return sys.argv[0].startswith("co2l ")


def as_typed(text: str) -> str:
    """The text with commands as this one was typed."""
    return text.replace("python -m co2l.", "co2l ") if text and by_console_script() else text


def execute(command: Callable[[], int]) -> NoReturn:
    """Run a command's body and exit with its code; a user's error never ends in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of another language has no κ
    try:
        with _handled_by(_leave):
            code = command()
            if sys.stdout:  # which may be closed
                sys.stdout.flush()  # now: at its end Python would complain in its own words
    except Co2lError as error:
        print(f"co2l: {error.short()}", file=sys.stderr)
        code = WRONG_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = OK
    except OSError as error:  # a disk, a folder or the network refused what nobody else looked after
        print(f"co2l: {refused(error).short()}", file=sys.stderr)
        _drop_output()
        code = WRONG_INPUT
    except MemoryError:
        print("co2l: there is not enough memory; give smaller values, or use a larger machine", file=sys.stderr)
        code = WRONG_INPUT
    atexit.register(gc.freeze)  # else Python looks through a million objects for cycles, and then forgets them all
    sys.exit(code)


def _drop_output() -> None:
    """What could not be written is forgotten; Python would try it once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C, SIGTERM or SIGHUP only makes the yielded function return true; a second one exits."""
    asked = False

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    with _handled_by(ask):
        yield lambda: asked


@contextmanager
def creating(mask: int) -> Iterator[None]:
    """Inside, new files and folders lack the permissions in `mask`, those of processes that are started here too."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mask_of(text: str) -> int:
    """The value of --umask."""
    if not re.fullmatch("0?[0-7]{3}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no mask of three octal digits, such as 077 or 007")
    return int(text, 8)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside, `handler` gets the signals that ask us to end, but those that our starter ignores, as nohup does."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, former in before.items():
        if former is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _leave(_number: int, frame: FrameType | None) -> None:
    """End at once while something is imported: libraries turn the exception into others; and nothing has begun."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
