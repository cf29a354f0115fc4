"""A small storage with a search and evaluations whose accuracies are made up, for tests of reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from co2l.search.record.entries import Cost
from co2l.search.record.study import StudyRecord
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.space import Space, parse
from co2l.search.space.trial import Trial

TASKS = 5
Accuracy = Callable[[Mapping[str, Any], int], float]  # of settings and seed: the final mean in Class-IL


def result(class_il: float) -> dict[str, Any]:
    """All tasks end with the same accuracy; after task i the earlier ones have lost a part of the way to it."""
    rows = {"class_il": class_il, "task_il": (class_il + 100) / 2}
    matrix = {
        name: [[100 - (100 - last) * (i - j + 1) / (TASKS - j) for j in range(i + 1)] for i in range(TASKS)]
        for name, last in rows.items()
    }
    return {
        "score": sum(rows.values()) / 2,
        "average": rows,
        "final": {name: [last] * TASKS for name, last in rows.items()},
        "matrix": matrix,
        "forgetting": {},
        "backward_transfer": {},
        "weights": "",
        "probes": {"final": "paper", "matrix": "fast"},
    }


def url(root: Path) -> str:
    return f"sqlite:///{root}/study.db"


def record(root: Path, name: str, space: Space, accuracy: Accuracy, trials: Sequence[Trial] | None = None) -> None:
    record = StudyRecord.open(url(root), name, space)
    for trial in space.trials() if trials is None else trials:
        record.begin(trial)
        settings = trial.config.settings.model_dump(mode="json")
        record.finish(trial, result(accuracy(settings, trial.seed)), Cost(20, 40, 3.0))


def evaluation(axes: Mapping[str, Sequence[Any]], seeds: int = 3, **keys: Any) -> Evaluation:
    document = {"benchmark": "seq_digits", "axes": dict(axes), "seeds": list(range(seeds)), **keys}
    return parse(document, "synthetic", Evaluation)


def search(**keys: Any) -> Space:
    axes = {"eta": [0.005, 0.01], "kappa": [0.1, 0.2], "buffer_size": [50, 100]}
    return parse({"benchmark": "seq_digits", "axes": axes, "selection": {"per": ["buffer_size"]}, **keys}, "synthetic")


def made_up(settings: Mapping[str, Any], seed: int) -> float:
    """IRD brings 20, asymmetric SupCon 3, a larger buffer some; SEED and MSE lie between; the seed moves all alike."""
    value = 55.0 + 0.05 * (settings["buffer_size"] if isinstance(settings["buffer_size"], int) else 200)
    distilled = {"ird": 20.0, "seed": 9.0, "mse_embedding": 12.0, "mse_projection": 11.0, "none": 0.0}
    value += distilled[settings["distillation"]] * min(1.0, settings["distill_power"])
    value += 3.0 if settings["supcon"] == "asymmetric" and settings["replay"] else 0.0
    return value - 100 * abs(settings["eta"] - 0.01) + 0.7 * (seed % 3) + 0.1 * seed


def fill(root: Path, accuracy: Accuracy = made_up) -> None:
    """Everything that a report can show of Co²L."""
    root.mkdir(parents=True, exist_ok=True)
    record(root, "seq_digits", search(), accuracy)
    record(root, "seq_digits.test", evaluation({"buffer_size": [50, 100]}), accuracy)
    record(root, "ird_ablation.test", evaluation({"distillation": ["ird", "none"], "replay": [True, False]}), accuracy)
    record(root, "supcon.test", evaluation({"supcon": ["symmetric", "asymmetric"], "buffer_size": [50, 100]}), accuracy)
    alternatives = ["seed", "mse_embedding", "mse_projection", "ird"]
    record(root, "ird_alternatives.test", evaluation({"distillation": alternatives}), accuracy)
    power = {"supcon": ["symmetric", "asymmetric"], "distill_power": [0.0, 0.5, 1.0]}
    record(root, "ird_power.test", evaluation(power, settings={"buffer_size": "unlimited"}), accuracy)
