"""Saves the middle of a stage while the next steps run: from a snapshot, one at a time, in the order they were made.

A stage on a GPU need not wait for the disk or the network. A snapshot is a copy on the state's own device, which the
step's stream makes in its order; only the thread that writes waits for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from torch import Tensor

from co2l.learning.store import Store


class BackgroundSaver:
    """Within a `with`, at whose end nothing is being written any more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = ThreadPoolExecutor(1, "co2l-save")  # starts no thread before the first save
        self._writing: tuple[Future[None], int] | None = None

    @property
    def busy(self) -> bool:
        """Whether a state is being written, or its end has not been asked for."""
        return self._writing is not None

    def begin(self, key: str, state: Mapping[str, Any], epoch: int) -> None:
        """Save the middle of the stage `key`, which holds `epoch` whole epochs."""
        assert not self.busy
        self._writing = self._writer.submit(self._store.save_state, key, snapshot(state), partial=True), epoch

    def finished(self) -> int | None:
        """The epochs of a state that has been written since the last call; raises if the store refused it."""
        if self._writing is None or not self._writing[0].done():
            return None
        (written, epoch), self._writing = self._writing, None
        written.result()
        return epoch

    def wait(self) -> None:
        """Until nothing is being written. A refusal is not told of: what is saved next will meet it too."""
        if self._writing is not None:
            with contextlib.suppress(Exception):
                self._writing[0].result()
            self._writing = None

    def __enter__(self) -> BackgroundSaver:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown()


def snapshot(value: Any) -> Any:
    """The same state with tensors of its own, which the next step does not change."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: snapshot(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(snapshot(item) for item in value)
    return value
