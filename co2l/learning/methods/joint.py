"""Joint (upper bound): all tasks' examples at once, i.i.d., in the last stage; the stages before it train nothing."""

from __future__ import annotations

from typing import ClassVar

from co2l.learning.config import Settings
from co2l.learning.methods.classifier import ClassifierSettings
from co2l.learning.methods.finetune import Finetune
from co2l.learning.schedule import Constant


class JointSettings(ClassifierSettings):
    def epochs_per_task(self, tasks: int) -> list[int]:
        return [0] * (tasks - 1) + [self.epochs]


class Joint(Finetune):
    name = "joint"
    settings_type: ClassVar[type[Settings]] = JointSettings
    jointly = True

    def schedule(self, t: int) -> Constant:
        return Constant(self.settings.eta, self.settings.epochs if t == self.benchmark.tasks - 1 else 0)

    @classmethod
    def matrix_probe(cls, settings: ClassifierSettings) -> None:  # noqa: ARG003  # before the end nothing is learned
        return None
