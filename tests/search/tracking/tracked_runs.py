"""Reports as a trial sends them, and what any client of MLflow sees of a study."""

from __future__ import annotations

from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run

from co2l.search.running.reports import Report

PNG = b"\x89PNG"
RESULT = {
    "score": 80.0,
    "average": {"class_il": 70.0, "task_il": 90.0},
    "final": {"class_il": [60.0, 80.0], "task_il": [85.0, 95.0]},
    "matrix": {"class_il": [[99.0], [60.0, 80.0]], "task_il": [[99.0], [85.0, 95.0]]},
    "forgetting": {"class_il": 39.0, "task_il": 14.0},
    "backward_transfer": {"class_il": -39.0, "task_il": -14.0},
    "weights": "ab" * 32,
}


def epoch(step: int, loss: float | None = None, **more: float) -> Report:
    metrics = {"loss/supcon": step / 8 if loss is None else loss, "lr": 0.5, **more}
    return Report("epoch", 0, 2, step, metrics, epochs_trained=step)


def done(step: int) -> Report:
    metrics = {"val/class_il": 70.0, "val/task_il": 90.0, "val/score": 80.0}
    return Report("done", 1, 2, step, metrics, epochs_trained=step - 2, epochs_reused=2, result=RESULT)


def runs(uri: str, study: str) -> tuple[list[Run], list[Run]]:
    """The study's runs and its trials' runs, as any client of the server sees them."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("co2l/seq_digits")
    found = [run for run in client.search_runs([experiment.experiment_id]) if run.data.tags["co2l.study"] == study]
    return [r for r in found if r.data.tags["co2l.kind"] == "study"], [
        r for r in found if r.data.tags["co2l.kind"] == "trial"
    ]


def points(uri: str, run: Run, key: str) -> list[tuple[int, float]]:
    return sorted((point.step, point.value) for point in MlflowClient(uri).get_metric_history(run.info.run_id, key))


def content(uri: str, run: Run, path: str, folder: Path) -> bytes:
    return Path(MlflowClient(uri).download_artifacts(run.info.run_id, path, str(folder))).read_bytes()
