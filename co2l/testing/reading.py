"""Which settings each stage of a run really reads, compared with what its key holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from co2l.learning.config import Scope, Settings
from co2l.learning.methods import METHODS
from co2l.learning.methods.base import Method
from co2l.testing.runs import finish, instead, short


class Recording:
    """Settings that note which of them are read while `stage` is set."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.stage: int | str | None = None
        self.read: dict[int | str, set[str]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in type(self._settings).model_fields and self.stage is not None:
            self.read.setdefault(self.stage, set()).add(name)
        return getattr(self._settings, name)

    def undeclared(self) -> dict[int | str, set[str]]:
        """What was read by a stage, or by the probe after it, and is not in the key."""
        found = {}
        for stage, names in self.read.items():
            scopes = self._settings.within({Scope.PROBE, Scope.EVERY})
            keyed = scopes if isinstance(stage, str) else self._settings.read_by_stage(stage)
            found[stage] = names - set(keyed)
        return {stage: names for stage, names in found.items() if names}


def reads(method: str, folder: Path, kind: type[Method] | None = None, **settings: Any) -> Recording:
    """What the stages of a short run read, of the method by this name or of another `kind` instead."""
    with instead(METHODS, method, _watched(kind or METHODS.find(method))):
        config = short(method, **settings)
        recording = Recording(config.settings)
        object.__setattr__(config, "settings", recording)
        finish(config, folder)
    return recording


def _watched(method: Any) -> type[Method]:
    """The method, telling its settings which stage every call belongs to."""

    class Watched(method):  # type: ignore[misc]
        def __init__(self, settings: Recording, *args: Any) -> None:
            settings.stage = 0
            super().__init__(settings, *args)
            settings.stage = None

    def attributed(name: str, stage: Any) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.settings.stage = stage(self, *args)
            try:
                return getattr(super(Watched, self), name)(*args, **kwargs)
            finally:
                self.settings.stage = None

        return call

    def begin(self: Any, t: int, *_: Any) -> int:
        self.now = t
        return t

    calls = {
        "schedule": lambda _self, t: t,
        "begin_task": begin,
        "draw": lambda self, *_: self.now,
        "step": lambda self, *_: self.now,
        # what is kept of task t belongs to the stage that uses it: so buffers may differ after one first stage
        "end_task": lambda _self, t, *_: t + 1,
        "classifier": lambda *_: "probe",
    }
    for name, stage in calls.items():
        setattr(Watched, name, attributed(name, stage))
    return Watched
