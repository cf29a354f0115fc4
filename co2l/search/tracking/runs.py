"""The runs of one study in MLflow; only this module and `models` import it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from co2l.errors import Co2lError
from co2l.search.space import Space
from co2l.search.tracking.models import register
from co2l.search.tracking.outbox import code
from co2l.search.tracking.pages import resolved, table_address, view_tag

if TYPE_CHECKING:  # it takes seconds to import, which the background thread does
    from mlflow import MlflowClient
    from mlflow.entities import Run

Point = tuple[str, float, int, int]  # metric, value, step, and when in milliseconds

KINDS = {"search": ("study", "trial"), "evaluation": ("evaluation", "seed")}  # of the parent's run and its children's
RUN_STATUS = {"finished": "FINISHED", "failed": "FAILED", "pruned": "KILLED", "killed": "KILLED"}
REPORTS = "co2l/reports"  # the experiment of all reports
REQUEST_SECONDS, LOCK_SECONDS = 10, 5
BATCH = 900  # metrics in one request; MLflow takes 1000 of everything


@dataclass
class _Child:
    run: str
    status: str = "RUNNING"
    selected: bool = False
    params: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)  # metrics whose last step is still to be asked for
    steps: dict[str, int] = field(default_factory=dict)  # the last step of each metric


class Record:
    """The runs of one study on the server. Every operation leaves the same runs however often it is performed."""

    def __init__(self, uri: str, study: str, space: Space, artifact_root: str | None) -> None:
        self.uri, self.study, self.space, self.artifact_root = uri, study, space, artifact_root
        self.kind, self.kind_of_child = KINDS[space.split.kind]
        self.children: dict[str, _Child] = {}
        self.page = ""  # the end of the address at which the UI shows the children

    def perform(self, operation: dict[str, Any], again: bool) -> None:
        """`again` if it was tried before: then it may have been performed and only the reply was lost."""
        content = dict(operation)
        kind, cell, at = content.pop("kind"), content.pop("cell", None), content.pop("time", 0)
        if kind == "connect":
            self._connect()
        elif kind == "begin":
            self._begin(cell, at, again=again, **content)
        elif kind == "report":
            self._log(self.children[cell], **content)
        elif kind == "end":
            self._end(self.children[cell], at, **content)
        elif kind == "reconcile":
            self._reconcile(at, **content)
        elif kind == "study":
            self._close(at, **content)
        elif kind == "model":
            register(self.client, self.children[cell].run, **content)
        elif kind == "start":
            self.client.update_run(self.parent, "RUNNING")
            view = view_tag(self.space, self.study, self.parent, at)
            self.client.set_experiment_tag(self.experiment, *view)
        elif kind == "stop":
            self.client.set_terminated(self.parent, "KILLED", at)

    def _connect(self) -> None:
        self.client = connect(self.uri)
        name = f"co2l/{self.space.benchmark}"
        experiment = self.client.get_experiment_by_name(name)
        if experiment is not None and experiment.lifecycle_stage == "deleted":
            raise Co2lError(f"the experiment '{name}' is deleted", fix="restore it with: mlflow experiments restore")
        self.experiment = (
            experiment.experiment_id if experiment else self.client.create_experiment(name, self.artifact_root)
        )
        tags = {"co2l.kind": self.kind, "co2l.study": self.study, "co2l.space": self.space.digest}
        studies = self._search(f"tags.`co2l.kind` = '{self.kind}'")
        found = next((run for run in studies if tags.items() <= run.data.tags.items()), None)
        if found is None:
            tags |= {"co2l.method": self.space.method, "co2l.algorithm": self.space.algorithm}
            found = self.client.create_run(self.experiment, tags=tags, run_name=self.study)
        self.parent = found.info.run_id
        self.page = table_address(self.experiment, self.parent)
        self._look_up()

    def _look_up(self, condition: str = "") -> None:
        for run in self._search(f"tags.`mlflow.parentRunId` = '{self.parent}'{condition}"):
            self.children[run.data.tags["co2l.cell"]] = _Child(
                run.info.run_id,
                run.info.status,
                selected="co2l.selected" in run.data.tags,
                params=set(run.data.params),
                measured=set(run.data.metrics),
            )

    def _search(self, condition: str) -> Iterator[Run]:
        token = None
        while True:
            page = self.client.search_runs([self.experiment], condition, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _begin(self, cell: str, at: int, name: str, params: Mapping[str, str], again: bool) -> None:
        from mlflow.entities import Param, RunTag

        if again and cell not in self.children:  # it may be there: then only the reply was lost
            self._look_up(f" and tags.`co2l.cell` = '{cell}'")
        child = self.children.get(cell)
        if child is None:
            tags = {
                "co2l.kind": self.kind_of_child,
                "co2l.cell": cell,
                "co2l.study": self.study,
                "co2l.status": "running",
                "mlflow.parentRunId": self.parent,
            }
            run = self.client.create_run(self.experiment, start_time=at, tags=tags, run_name=name)
            child = self.children[cell] = _Child(run.info.run_id)
        elif child.status != "RUNNING":
            self.client.update_run(child.run, "RUNNING")
            self.client.log_batch(child.run, tags=[RunTag("co2l.status", "running"), RunTag("co2l.reason", "")])
            child.status = "RUNNING"
        if missing := [Param(key, value) for key, value in params.items() if key not in child.params]:
            self.client.log_batch(child.run, params=missing)
            child.params = set(params)

    def _log(self, child: _Child, points: Sequence[Point], tags: Mapping[str, str] | None = None) -> None:
        """The points that the run does not have yet, as a rule in one batch; a driver that goes on repeats some."""
        from mlflow.entities import Metric, RunTag

        for key in child.measured & {key for key, *_ in points}:
            history = self.client.get_metric_history(child.run, key)
            child.steps[key] = max((point.step for point in history), default=-1)
            child.measured.discard(key)
        steps, fresh = dict(child.steps), []
        for key, value, step, at in points:
            if step > steps.get(key, -1):
                steps[key] = step
                fresh.append(Metric(key, value, at, step))
        for i in range(0, max(len(fresh), bool(tags)), BATCH):
            self.client.log_batch(child.run, fresh[i : i + BATCH], tags=[RunTag(*tag) for tag in (tags or {}).items()])
        child.steps = steps

    def _end(self, child: _Child, at: int, status: str, result: Mapping[str, Any] | None, **logged: Any) -> None:
        self._log(child, **logged)
        self._terminate(child, status, at)
        if result:
            from co2l.search.figures import accuracy_matrix, png

            files = {"accuracy_matrix.json": json.dumps(result, indent=2).encode()}
            if result.get("matrix"):
                files["accuracy_matrix.png"] = png(accuracy_matrix(result["matrix"]))
            upload(self.client, child.run, files)

    def _terminate(self, child: _Child, status: str, at: int) -> None:
        self.client.set_terminated(child.run, RUN_STATUS[status], at)
        child.status = RUN_STATUS[status]

    def _reconcile(self, at: int, states: Mapping[str, str]) -> None:
        for cell, child in self.children.items():
            state = states.get(cell, "killed")
            if child.status == "RUNNING" and state in RUN_STATUS:
                self.client.set_tag(child.run, "co2l.status", state)
                self._terminate(child, state, at)

    def _close(
        self,
        at: int,
        status: str,
        files: Mapping[str, str],
        cells: Collection[str],
        metrics: Mapping[str, float],
        note: str,
    ) -> None:
        for cell, child in self.children.items():
            if cell in cells and not child.selected:
                self.client.set_tag(child.run, "co2l.selected", "true")
            elif cell not in cells and child.selected:
                self._remove_tag(child.run, "co2l.selected")
            child.selected = cell in cells
        for key, value in metrics.items():
            history = sorted(self.client.get_metric_history(self.parent, key), key=lambda point: point.step)
            if not history or history[-1].value != value:
                self.client.log_metric(self.parent, key, value, at, len(history))
        self.client.set_tag(self.parent, "mlflow.note.content", self._resolved(note))
        self.client.set_terminated(self.parent, RUN_STATUS[status], at)
        upload(self.client, self.parent, {name: base64.b64decode(content) for name, content in files.items()})

    def _resolved(self, note: str) -> str:
        def run_of(cell: str) -> str | None:
            return self.children[cell].run if cell in self.children else None

        return resolved(note, run_of, experiment=self.experiment, study=self.parent, table=self.page)

    def _remove_tag(self, run: str, tag: str) -> None:
        try:
            self.client.delete_tag(run, tag)
        except Exception as error:
            if code(error) != "RESOURCE_DOES_NOT_EXIST":
                raise


def upload(client: MlflowClient, run: str, files: Mapping[str, bytes]) -> None:
    """Files as artifacts of a run, by their path there."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        client.log_artifacts(run, folder)


def leave_report(uri: str, name: str, tags: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    """The files as artifacts of the run `name` among the reports; the same name again replaces them."""
    client, artifacts = connect(uri), None
    if uri.startswith("sqlite:"):
        artifacts = (database_of(uri).parent / "artifacts").as_uri()
    known = client.get_experiment_by_name(REPORTS)
    experiment = known.experiment_id if known else client.create_experiment(REPORTS, artifacts)
    marked = {"co2l.kind": "report", "co2l.report": name}
    condition = " and ".join(f"tags.`{key}` = '{value}'" for key, value in marked.items())
    found = client.search_runs([experiment], condition, max_results=1)
    run = found[0] if found else client.create_run(experiment, tags=marked, run_name=name)
    for key, value in tags.items():
        client.set_tag(run.info.run_id, key, value)
    upload(client, run.info.run_id, files)
    client.set_terminated(run.info.run_id)


def connect(uri: str) -> MlflowClient:
    """A client that asks once: MLflow's own repetitions would create a second run when a reply is lost."""
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(REQUEST_SECONDS))
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # the driver's progress is there
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "CRITICAL")  # what goes wrong is told once, by us
    from mlflow import MlflowClient

    if uri.startswith("sqlite:") and _is_new(database := database_of(uri)):
        with tempfile.TemporaryDirectory() as folder:  # a driver killed here leaves no half database
            MlflowClient(f"sqlite:///{folder}/new.db").search_experiments(max_results=1)
            copy = database.with_name(f".{database.name}-{os.getpid()}")
            shutil.copyfile(f"{folder}/new.db", copy)
        copy.replace(database) if _is_new(database) else copy.unlink()
    return MlflowClient(uri)


def database_of(uri: str) -> Path:
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]).absolute()


def _is_new(database: Path) -> bool:
    return not database.exists() or database.stat().st_size == 0


def check(database: Path) -> bool:
    """Whether the database is still to be made; an error if it cannot be written (MLflow would wait for minutes)."""
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        if _is_new(database):
            database.touch()
            return True
        connection = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        fix = "end what holds it" if "locked" in str(error) else "give another file with --tracking-uri"
        raise Co2lError(f"the tracking database cannot be used ({error})", where=str(database), fix=fix) from None
    return False
