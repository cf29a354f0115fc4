"""How progress is shown: a live line in a terminal, a plain one now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

REDRAW_SECONDS, LOG_SECONDS = 0.2, 10.0


class Display:
    """Both kinds of progress are one. Nothing is drawn if `quiet`, nor sooner than it is `due` if asked."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self._drawn = quiet, time.monotonic()
        terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not quiet
        self._console = Console(file=sys.stderr, highlight=False)
        self._live = Live(console=self._console, transient=True, auto_refresh=False) if terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def is_live(self) -> bool:
        return self._live is not None

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last line."""
        return not self.quiet and time.monotonic() - self._drawn >= (REDRAW_SECONDS if self._live else LOG_SECONDS)

    def draw(self, text: str, drawing: RenderableType) -> None:
        """The drawing instead of the last one, or the text as a line."""
        self._drawn = time.monotonic()
        if self._live:
            self._live.update(drawing, refresh=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, markup=False) if self._live else print(text, file=sys.stderr)
