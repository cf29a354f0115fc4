"""In which order a class-incremental stream brings its classes: the dataset's own, a listed or a drawn one.

A setting writes it in one word: `fixed`, `seed` (drawn by the run's seed), a number (drawn by that number, whatever
the seed), or all classes in their order, as `3,0,1,2`.
"""

from __future__ import annotations

import re

from co2l.errors import Co2lError

ClassOrder = int | str
FIXED, BY_SEED = "fixed", "seed"
FORMS = "fixed, seed, a number from 0 that draws one, or all classes as 3,0,1,2"


def in_one_word(given: object) -> object:
    """A list of classes as settings hold it; anything else as it is."""
    if isinstance(given, list | tuple):
        return ",".join(str(each) for each in given)
    return given


def is_class_order(written: ClassOrder) -> bool:
    if isinstance(written, int):
        return written >= 0
    return written in (FIXED, BY_SEED) or re.fullmatch(r"\d+(,\d+)+", written) is not None


def classes_in_order(written: ClassOrder, classes: int, seed: int, *, where: str = "") -> tuple[int, ...]:
    """The dataset's classes in the order in which they come; empty if that is the dataset's own."""
    if written == FIXED:
        return ()
    if isinstance(written, int) or written == BY_SEED:
        import torch  # slow: spaces are read without it

        from co2l.data.randomness import generator_for

        drawn_by = seed if isinstance(written, str) else written
        return tuple(torch.randperm(classes, generator=generator_for(drawn_by, "class order")).tolist())
    listed = tuple(map(int, written.split(",")))
    if sorted(listed) != list(range(classes)):
        fix = f"list each of 0 to {classes - 1} once"
        raise Co2lError(f"class_order: not an order of the {classes} classes, got {written}", where=where, fix=fix)
    return () if listed == tuple(range(classes)) else listed
