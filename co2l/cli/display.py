"""How progress is shown: rows that are drawn anew in a terminal, an occasional plain line elsewhere.

It is up before anything slow is imported, and a clock runs in its first row until the command ends.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.segment import ControlType, Segment
from rich.text import Text

REDRAW_SECONDS, LOG_SECONDS, TICK_SECONDS = 0.2, 10.0, 1.0
ERASE = "\r\x1b[J"  # from the cursor to the end of the screen


class Display:
    """Draws nothing if `quiet`; callers check `due` to limit the rate."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self._drawn = quiet, -math.inf  # the first line comes at once
        terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not quiet
        self._console = Console(file=sys.stderr, highlight=False)
        self._rows = Rows(self._console) if terminal else None

    def __enter__(self) -> Self:
        if self._rows:
            self._rows.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rows:
            self._rows.stop()

    @property
    def is_live(self) -> bool:
        return self._rows is not None

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last draw."""
        return not self.quiet and time.monotonic() - self._drawn >= (REDRAW_SECONDS if self._rows else LOG_SECONDS)

    def draw(self, text: str, rows: Sequence[str | Text] = ()) -> None:
        """Replace the last rows, by `text` if there are none; or print the text as a line."""
        if self.quiet:
            return
        self._drawn = time.monotonic()
        if self._rows:
            self._rows.show(rows or [text])
        else:
            print(text, file=sys.stderr, flush=True)

    def doing(self, text: str, *, checking: bool = False) -> None:
        """What happens now, before there is progress to show; a log leaves out checks, whose error is one line."""
        if self._rows or not checking:
            self.draw(text)
            self._drawn = -math.inf

    def note(self, text: str) -> None:
        """Print a line that stays."""
        if self.quiet:
            return
        self._console.print(text, markup=False) if self._rows else print(text, file=sys.stderr, flush=True)

    def warn(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.note(f"warning: {line}")

    def stops_when(self, asked_to_stop: Callable[[], bool]) -> None:
        """Say that the command is stopping as soon as this is true."""
        if self._rows:
            self._rows.asked_to_stop = asked_to_stop


class Rows(RenderHook):
    """Rows at the bottom of what was printed. What others print goes above them.

    The cursor rests at the start of the first row. A terminal that becomes narrower breaks the rows into more lines but
    leaves the cursor there, so erasing from it leaves nothing behind; rich.live would leave a copy of the row.
    """

    def __init__(self, console: Console) -> None:
        self._console, self._lock = console, threading.RLock()
        self._began = time.monotonic()
        self._rows: Sequence[str | Text] = ()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._streams = sys.stdout, sys.stderr
        self.asked_to_stop: Callable[[], bool] = lambda: False

    def start(self) -> None:
        out, err = self._streams
        sys.stderr = FileProxy(self._console, err)
        if out.isatty():
            sys.stdout = FileProxy(self._console, out)
        self._console.show_cursor(False)
        self._console.push_render_hook(self)
        self._ticker.start()

    def stop(self) -> None:
        """Nothing of the rows stays."""
        self._ended.set()
        self._ticker.join()
        self.show(())
        self._console.pop_render_hook()
        self._console.show_cursor(True)
        sys.stdout, sys.stderr = self._streams

    def show(self, rows: Sequence[str | Text]) -> None:
        with self._lock:
            self._rows = rows
            self._console.print(Control())  # nothing, with the rows below it

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            with self._lock:
                self.show(self._rows)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Raw(ERASE), *renderables, self]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(width=max(1, console.width - 1), height=None)
        rows = list(self._rows)[: max(1, console.height - 1)]
        for i, row in enumerate(rows):
            text = Text(row) if isinstance(row, str) else row.copy()
            if i == 0:
                text = Text.assemble(f"{duration(time.monotonic() - self._began)} ", self._stopping(), text)
            text.no_wrap, text.overflow = True, "ellipsis"
            yield Segment.line() if i else Segment("")
            yield from console.render_lines(text, options, pad=False)[0]
        if rows:
            yield from _Raw("\r" + "\x1b[A" * (len(rows) - 1)).__rich_console__(console, options)

    def _stopping(self) -> str:
        return "stopping, run the same command to continue · " if self.asked_to_stop() else ""


class _Raw:
    """Characters that move the cursor."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        yield Segment(self.text, None, [(ControlType.CARRIAGE_RETURN,)])


def duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
