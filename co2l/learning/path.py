"""What a setting's value in one task is called: `kappa/3` is that of κ in task 3."""

from __future__ import annotations

import re
from typing import Any

# By task, the settings that differ from the run's there and their values, by name; up to the last such task
SettingsPath = tuple[tuple[tuple[str, Any], ...], ...]


def in_task(name: str, task: int) -> str:
    """What the value of a setting in one task (from 1 on) is called."""
    return f"{name}/{task}"


def of_task(name: str) -> tuple[str, int | None]:
    """The setting behind a name, and the task if it is the value of one alone."""
    setting, _, task = name.partition("/")
    return (setting, int(task)) if re.fullmatch("[0-9]{1,9}", task) and int(task) > 0 else (name, None)
