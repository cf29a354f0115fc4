"""Where the words of failed attempts are kept: a file per trial below the search's root, an entry per attempt."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

from co2l.search.space.trial import Trial

_log = logging.getLogger(__name__)


class FailureLog:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, trial_key: str) -> Path:
        return self.folder / f"{trial_key[:16]}.log"

    def write(self, trial: Trial, reason: str) -> Path:
        """Append why an attempt at the trial failed, with all of its settings."""
        path, when = self.path(trial.key), datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        described = json.dumps(trial.config.as_dict(), default=str)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as log:
                log.write(f"{when} trial {trial.key}\n{described}\n{reason.rstrip()}\n\n")
        except OSError as error:  # a full disk does not end a search
            _log.warning("%s cannot be written: %s", path, error)
        return path
