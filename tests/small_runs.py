"""Short runs on a few digits, as `co2l.testing` makes them, and a method in the middle of a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from co2l.data.examples import Examples
from co2l.learning.encoders import Encoder
from co2l.learning.methods import METHODS
from co2l.testing.runs import CPU, SHORT, few_digits, finish, short, start

__all__ = ["CPU", "SHORT", "begun", "few_digits", "finish", "in_float64", "plain", "short", "start"]


def begun(method: str, *, steps: int = 0, tasks: int = 1, each: int = 20, double: bool = False, **settings: Any) -> Any:
    """A method `steps` steps into its task number `tasks`, by the calls a run makes; digits without augmentation.

    A baseline may compute in float64, so that a formula can be compared to the last digits.
    """
    config, stream = short(method, augment="none", **settings), few_digits(each=each)
    learner: Any = METHODS[method](config.settings, stream.benchmark, 0, CPU)
    if double:
        in_float64(learner.network)
        if hasattr(learner, "phi"):
            learner.phi = learner.phi.double()
        if getattr(learner, "stores_logits", False):
            learner.memory = replace(learner.memory, logits=learner.memory.logits.double())
    for t in range(tasks):
        if t > 0:
            learner.end_task(t - 1, stream.train(t - 1))
        learner.begin_task(t, stream.train(t))
        for i, batch in enumerate(learner.draw(1)[: steps if t == tasks - 1 else None]):
            learner.step(batch, 0.1, torch.Generator().manual_seed(100 * t + i))
    return learner


def in_float64(network: nn.Module) -> None:
    """Its parameters, and every image that its encoder is shown."""
    network.double()
    for part in network.modules():
        if isinstance(part, Encoder):
            part.register_forward_pre_hook(lambda _, images: (images[0].double(),))


def plain(examples: Examples) -> Tensor:
    """The images as a network for digits sees them without augmentation."""
    return examples.images.float() / 255
