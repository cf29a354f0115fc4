"""Accuracy per task and scenario, and what a sequence of them says: average, forgetting, backward transfer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from co2l.data.benchmarks import normalise
from co2l.data.streams import TaskStream

Row = Mapping[str, Sequence[float]]  # scenario -> accuracy in percent on tasks 0, 1, …
Matrix = Sequence[Sequence[float]]  # row i: accuracies on tasks 0…i after learning task i

BATCH = 250  # judging must not need more memory than a training step


@torch.no_grad()
def accuracies(
    classify: Callable[[Tensor], Tensor], tasks: TaskStream, seen: Iterable[int], device: torch.device
) -> dict[str, list[float]]:
    """Held-out accuracy on each task of `seen`: Class-IL and Task-IL, or Domain-IL."""
    benchmark = tasks.benchmark
    row: dict[str, list[float]] = {name: [] for name in scenarios(benchmark.scenario)}
    for t in seen:
        samples = tasks.held_out(t)
        own = torch.tensor(tasks.classes(t), device=device)
        among_all = among_own = 0
        for index in torch.arange(len(samples)).split(BATCH):
            images = samples.gather(index).to(device)
            labels = samples.labels[index].to(device)
            logits = classify(normalise(images.float() / 255, benchmark))
            among_all += int((logits.argmax(1) == labels).sum())
            among_own += int((own[logits[:, own].argmax(1)] == labels).sum())
        percent = 100 / max(len(samples), 1)
        if benchmark.scenario == "domain":
            row["domain_il"].append(among_all * percent)
        else:
            row["class_il"].append(among_all * percent)
            row["task_il"].append(among_own * percent)
    return row


def scenarios(kind: str) -> tuple[str, ...]:
    return ("domain_il",) if kind == "domain" else ("class_il", "task_il")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def score(row: Row) -> float:
    """The paper's selection criterion: accuracy averaged over Class-IL and Task-IL, or Domain-IL alone."""
    return mean([mean(accuracy) for accuracy in row.values()])


def forgetting(matrix: Matrix) -> float:
    """How far the final accuracy on each earlier task is below its best before the last task, on average."""
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return mean([max(matrix[i][j] for i in range(j, last)) - matrix[last][j] for j in range(last)])


def backward_transfer(matrix: Matrix) -> float:
    """What the later tasks did to the accuracy each earlier task had when it was learned, on average."""
    last = len(matrix) - 1
    if last == 0:
        return 0.0
    return mean([matrix[last][j] - matrix[j][j] for j in range(last)])
