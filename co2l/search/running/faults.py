"""What an error means for its attempt: try again, never again, blame the world outside, or give up the process."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from co2l.errors import Co2lError, from_outside, headline
from co2l.learning.cards import gib_on_card
from co2l.learning.config import RunConfig
from co2l.learning.device import card, choose_device
from co2l.learning.footprint import footprint
from co2l.search.running.reports import Fault


@dataclass(frozen=True)
class Room:
    """The memory a trial has on its card."""

    device: str
    gpus: float  # the share of one card, or how many
    config: RunConfig | None = None  # of the trial, from which its need is estimated


def fault_of(error: Exception, room: Room) -> tuple[str, Fault]:
    """What to tell the user about an attempt's error, and what becomes of the attempt."""
    if any(map(_out_of_memory, _chain(error))):
        return _too_large(room), "hopeless"
    if poisons(error):
        return headline(error), "lost"
    words = str(error) if isinstance(error, Co2lError) else traceback.format_exc(limit=-3)
    return words, "outside" if from_outside(error) else "own"


def poisons(error: Exception) -> bool:
    """Whether every later call to the accelerator from this process would fail too, as after a CUDA error."""
    return any(isinstance(each, torch.AcceleratorError) and not _out_of_memory(each) for each in _chain(error))


def _out_of_memory(error: BaseException) -> bool:
    refused = isinstance(error, torch.AcceleratorError) and "out of memory" in str(error)  # by the driver itself
    return refused or isinstance(error, torch.OutOfMemoryError)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _too_large(room: Room) -> str:
    name, memory = card(choose_device(room.device))
    size = f" ({memory:.1f} GiB)" if memory else ""
    share = f"{room.gpus:g} of it" if room.gpus < 1 else "all of it"
    needs = f", and needs about {gib_on_card(footprint(room.config).peak):.1f} GiB" if room.config else ""
    return (
        f"{name}{size}: out of memory: the trial has {share}{needs}; give it a larger share (--gpus-per-trial),"
        " or set recompute=true, precision=bf16 or a smaller batch_size"
    )
