"""Accuracy per task and scenario, and what a sequence of them says: average, forgetting, backward transfer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from co2l.data.benchmarks import standardise
from co2l.data.streams import TaskStream

Row = Mapping[str, Sequence[float]]  # scenario -> accuracy in percent on tasks 0, 1, …
Matrix = Sequence[Sequence[float]]  # row i: accuracies on tasks 0…i after learning task i

LAST_DOMAIN = "last_domain"
SCENARIOS = {"class_il": "Class-IL", "task_il": "Task-IL", "domain_il": "Domain-IL", LAST_DOMAIN: "last domain"}
PROBES = {"paper": "paper's probe", "fast": "fast probe", "own": "method's own classifier"}
BATCH = 250  # evaluating must not need more memory than a training step


@torch.no_grad()
def accuracies(
    classify: Callable[[Tensor], Tensor], tasks: TaskStream, seen: Iterable[int], device: torch.device
) -> dict[str, list[float]]:
    """Held-out accuracy on each task of `seen`: Class-IL and Task-IL, or Domain-IL."""
    benchmark = tasks.benchmark
    row: dict[str, list[float]] = {name: [] for name in scenarios(benchmark.scenario)}
    for t in seen:
        examples = tasks.held_out(t)
        own = torch.tensor(tasks.classes(t), device=device)
        among_all = among_own = 0
        for some in examples.split(BATCH):
            batch = some.to(device)
            logits = classify(standardise(batch.images, benchmark))
            among_all += int((logits.argmax(1) == batch.labels).sum())
            among_own += int((own[logits[:, own].argmax(1)] == batch.labels).sum())
        percent = 100 / max(len(examples), 1)
        if benchmark.scenario == "domain":
            row["domain_il"].append(among_all * percent)
        else:
            row["class_il"].append(among_all * percent)
            row["task_il"].append(among_own * percent)
    return row


def scenarios(kind: str) -> tuple[str, ...]:
    return ("domain_il",) if kind == "domain" else ("class_il", "task_il")


def scenario_title(name: str) -> str:
    """A scenario as the paper writes it; other names, as that of the mean `score`, stay as they are."""
    return SCENARIOS.get(name, name)


def probe_title(result: Mapping[str, Any], which: str) -> str:
    """The `final` or `matrix` probe of a result, as people read it; older results do not say."""
    name = (result.get("probes") or {}).get(which)
    return PROBES.get(name, f"{name} probe") if name else f"{which} probe"


def course_of(metric: str, probe: str) -> str:
    """The name of a metric after every task, by the probe behind the matrix: `val/score` becomes `val_fast/score`.

    What the final probe measures after the last task keeps the plain name, so no curve joins points of both.
    """
    split, _, name = metric.partition("/")
    return f"{split}_{probe}/{name}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def score(row: Row) -> float:
    """The paper's selection criterion: accuracy averaged over Class-IL and Task-IL, or Domain-IL alone."""
    return mean([mean(accuracy) for accuracy in row.values()])


def last_domain(row: Row) -> dict[str, float]:
    """The accuracy on the domain learned last, on rotated benchmarks: all that the released code measures there."""
    return {LAST_DOMAIN: row["domain_il"][-1]} if "domain_il" in row else {}


def reported(result: Mapping[str, Any]) -> dict[str, float]:
    """The accuracies by which a result, as `Result.as_dict()`, is known: the mean of each scenario, the last domain."""
    return {**result["average"], **last_domain(result.get("final", {}))}


def forgetting(matrix: Matrix) -> float:
    """How far the final accuracy on each earlier task is below its best before the last task, on average."""
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return mean([max(matrix[i][j] for i in range(j, last)) - matrix[last][j] for j in range(last)])


def averages(row: Row, split: str) -> dict[str, float]:
    """The mean accuracy of each scenario, that on the last domain, and the score, as metrics of an evaluation split."""
    measured = {**{name: mean(accuracies) for name, accuracies in row.items()}, **last_domain(row), "score": score(row)}
    return {f"{split}/{name}": value for name, value in measured.items()}


def course(rows: Sequence[Row], split: str, probe: str) -> dict[str, float]:
    """Accuracies and forgetting after the last of these tasks, by the probe behind the matrix."""
    measured = averages(rows[-1], split)
    if len(rows) > 1:
        forgotten = {name: forgetting([row[name] for row in rows]) for name in rows[-1]}
        measured |= {f"{split}/forgetting_{name}": drop for name, drop in forgotten.items()}
    return {course_of(name, probe): value for name, value in measured.items()}


def backward_transfer(matrix: Matrix) -> float:
    """What the later tasks did to the accuracy each earlier task had when it was learned, on average."""
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return mean([matrix[last][j] - matrix[j][j] for j in range(last)])
