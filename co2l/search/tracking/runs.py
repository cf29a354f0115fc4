"""The runs of one study in MLflow, and those of reports."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from co2l.errors import Co2lError
from co2l.learning.metrics import probe_title
from co2l.search.record.earlier import Earlier
from co2l.search.record.entries import Entry, Status
from co2l.search.running.private_folder import private_folder
from co2l.search.space.space import Space
from co2l.search.tracking.connection import artifacts_of, connect
from co2l.search.tracking.models import register
from co2l.search.tracking.operations import Operation, Point, missing
from co2l.search.tracking.outbox import code
from co2l.search.tracking.pages import SELECTED, STAR, resolved, study_params, table_address, view_tag
from co2l.search.tracking.provenance import provenance

if TYPE_CHECKING:  # it takes seconds to import, which the background thread does
    from mlflow import MlflowClient
    from mlflow.entities import Run

KINDS = {"search": ("study", "trial"), "evaluation": ("evaluation", "seed")}  # of the parent's run and its children's
RUN_STATUS: dict[Status, str] = {  # of a trial and of a whole study, in MLflow's words
    "pending": "KILLED",
    "done": "FINISHED",
    "paused": "KILLED",
    "pruned": "KILLED",
    "failed": "FAILED",
}
REPORTS = "co2l/reports"  # the experiment of all reports
BATCH = 900  # metrics in one request; MLflow takes 1000 of everything


@dataclass
class _Child:
    run: str
    name: str
    status: str = "RUNNING"
    trial_status: str = "running"  # in our words
    selected: bool = False
    params: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)  # metrics whose last step is still to be asked for
    steps: dict[str, int] = field(default_factory=dict)  # the last step of each metric


class TrackedStudy:
    """The runs of one study on the server. Every operation leaves the same runs however often it is performed."""

    def __init__(self, uri: str, study: str, space: Space, identity: str, earlier: Earlier | None = None) -> None:
        self.uri, self.study, self.space, self.identity = uri, study, space, identity
        self.begun = {"co2l.from_study": earlier.study, "co2l.begun_with": str(earlier)[:5000]} if earlier else {}
        self.kind, self.kind_of_child = KINDS[space.split.kind]
        self.children: dict[str, _Child] = {}
        self.second: set[str] = set()  # runs of trials that have a better one
        self.page = ""  # the end of the address at which the UI shows the children
        self._recorded: tuple[str, list[Entry]] = "", []

    def reconciling(self, recorded: Iterable[Entry]) -> Operation:
        """The operation that compares runs and record; the latter stays in memory, as the next driver has its own."""
        self._recorded = uuid.uuid4().hex, [replace(entry) for entry in recorded]
        return {"kind": "reconcile", "with": self._recorded[0]}

    def perform(self, operation: Operation, again: bool) -> Iterable[Operation]:
        """`again` if it was tried before: then it may have been performed and only the reply was lost.

        The answer is what has to be performed next.
        """
        content = dict(operation)
        kind, trial, at = content.pop("kind"), content.pop("trial", None), content.pop("time", 0)
        if kind == "connect":
            self._connect()
        elif kind == "begin":
            self._begin(trial, at, again=again, **content)
        elif kind == "report":
            self._log(self.children[trial], **content)
        elif kind == "end":
            self._end(self.children[trial], at, **content)
        elif kind == "reconcile":
            return self._reconcile(content["with"])
        elif kind == "study":
            self._close(at, **content)
        elif kind == "model":
            register(self.client, self.children[trial].run, **content)
        elif kind == "start":
            self._start(at)
        elif kind == "stop":
            self.client.set_terminated(self.parent, "KILLED", at)
        else:
            raise ValueError(f"unknown operation '{kind}'")
        return ()

    def _start(self, at: int) -> None:
        from mlflow.entities import Param, RunTag

        params, grown = study_params(self.space, self.client.get_run(self.parent).data.params)
        tags = [RunTag(*tag) for tag in {**provenance(), **self.begun, **grown}.items()]
        self.client.log_batch(self.parent, params=[Param(*param) for param in params.items()], tags=tags)
        self.client.update_run(self.parent, "RUNNING")
        self.client.set_experiment_tag(self.experiment, *view_tag(self.space, self.study, self.parent, at))

    def _connect(self) -> None:
        self.client = connect(self.uri)
        name = f"co2l/{self.space.benchmark}"
        experiment = self.client.get_experiment_by_name(name)
        if experiment is not None and experiment.lifecycle_stage == "deleted":
            raise Co2lError(f"the experiment '{name}' is deleted", fix="restore it with: mlflow experiments restore")
        self.experiment = (
            experiment.experiment_id if experiment else self.client.create_experiment(name, artifacts_of(self.uri))
        )
        tags = {"co2l.kind": self.kind, "co2l.study": self.study, "co2l.space": self.identity}
        studies = self._search(f"tags.`co2l.kind` = '{self.kind}'")
        found = next((run for run in studies if tags.items() <= run.data.tags.items()), None)
        if found is None:
            tags |= {"co2l.method": self.space.method_title, "co2l.algorithm": str(self.space.algorithm)}
            found = self.client.create_run(self.experiment, tags=tags, run_name=self.study)
        self.parent = found.info.run_id
        self.page = table_address(self.experiment, self.parent)
        self._look_up()

    def _look_up(self, condition: str = "") -> None:
        for run in self._search(f"tags.`mlflow.parentRunId` = '{self.parent}'{condition}"):
            child = _Child(
                run.info.run_id,
                run.info.run_name.removeprefix(STAR),
                run.info.status,
                run.data.tags.get("co2l.status", ""),
                selected="co2l.selected" in run.data.tags,
                params=set(run.data.params),
                measured=set(run.data.metrics),
            )
            other = self.children.get(trial := run.data.tags["co2l.trial"])
            if other and other.run != child.run:  # two drivers have tracked the trial
                worse, child = sorted((other, child), key=lambda each: (each.status == "FINISHED", len(each.measured)))
                self.second.add(worse.run)
            self.children[trial] = child

    def _search(self, condition: str) -> Iterator[Run]:
        token = None
        while True:
            page = self.client.search_runs([self.experiment], condition, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _begin(self, trial: str, at: int, name: str, params: Mapping[str, str], again: bool) -> None:
        from mlflow.entities import Param, RunTag

        if again and trial not in self.children:  # it may be there: then only the reply was lost
            self._look_up(f" and tags.`co2l.trial` = '{trial}'")
        child = self.children.get(trial)
        if child is None:
            tags = {
                "co2l.kind": self.kind_of_child,
                "co2l.trial": trial,
                "co2l.study": self.study,
                "co2l.status": "running",
                "mlflow.parentRunId": self.parent,
            }
            run = self.client.create_run(self.experiment, start_time=at, tags=tags, run_name=name)
            child = self.children[trial] = _Child(run.info.run_id, name)
        elif child.status != "RUNNING":
            self.client.update_run(child.run, "RUNNING")
            self.client.log_batch(child.run, tags=[RunTag("co2l.status", "running"), RunTag("co2l.reason", "")])
            child.status, child.trial_status = "RUNNING", "running"
        if missing := [Param(key, value) for key, value in params.items() if key not in child.params]:
            self.client.log_batch(child.run, params=missing)
            child.params = set(params)

    def _log(self, child: _Child, points: Sequence[Point], tags: Mapping[str, str] | None = None) -> None:
        """The points that the run does not have yet, usually in one batch; a driver that continues repeats some."""
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

    def _end(self, child: _Child, at: int, status: Status, result: Mapping[str, Any] | None, **logged: Any) -> None:
        """The status last: a run that has it has everything, and is not compared any further with the record."""
        if result:
            from co2l.search.tracking.figures import accuracy_matrix, png

            files = {"accuracy_matrix.json": json.dumps(result, indent=2).encode()}
            if result.get("matrix"):
                files["accuracy_matrix.png"] = png(accuracy_matrix(result["matrix"], probe_title(result, "matrix")))
            upload(self.client, child.run, files)
        self._log(child, **logged)
        self.client.set_terminated(child.run, RUN_STATUS[status], at)
        child.status, child.trial_status = RUN_STATUS[status], status

    def _reconcile(self, recorded: str) -> list[Operation]:
        if recorded != self._recorded[0]:  # what another driver had left to compare
            return []
        for run in list(self.second):
            self.client.delete_run(run)
            self.second.discard(run)
        tracked = {trial: _told(child) for trial, child in self.children.items()}
        return list(missing(self.space, self._recorded[1], tracked))

    def _close(
        self,
        at: int,
        status: Status,
        files: Mapping[str, str],
        trials: Collection[str],
        metrics: Mapping[str, float],
        note: str,
    ) -> None:
        for trial, child in self.children.items():
            self._mark(child, selected=trial in trials)
        for key, value in metrics.items():
            history = sorted(self.client.get_metric_history(self.parent, key), key=lambda point: point.step)
            if not history or history[-1].value != value:
                self.client.log_metric(self.parent, key, value, at, len(history))
        self.client.set_tag(self.parent, "mlflow.note.content", self._resolved(note))
        self.client.set_terminated(self.parent, RUN_STATUS[status], at)
        upload(self.client, self.parent, {name: base64.b64decode(content) for name, content in files.items()})

    def _mark(self, child: _Child, *, selected: bool) -> None:
        """A star before the name of what was selected, and a tag."""
        if selected and not child.selected:
            self.client.set_tag(child.run, "co2l.selected", SELECTED)
            self.client.update_run(child.run, name=f"{STAR}{child.name}")
        elif child.selected and not selected:
            self._remove_tag(child.run, "co2l.selected")
            self.client.update_run(child.run, name=child.name)
        child.selected = selected

    def _resolved(self, note: str) -> str:
        def run_of(trial: str) -> str | None:
            return self.children[trial].run if trial in self.children else None

        return resolved(note, run_of, experiment=self.experiment, study=self.parent, table=self.page)

    def _remove_tag(self, run: str, tag: str) -> None:
        try:
            self.client.delete_tag(run, tag)
        except Exception as error:
            if code(error) != "RESOURCE_DOES_NOT_EXIST":
                raise


def _told(child: _Child) -> str:
    """How its trial has ended as far as the run says; one that says two things has not ended."""
    ended = RUN_STATUS.get(cast(Status, child.trial_status)) == child.status
    return child.trial_status if ended else "running"


def upload(client: MlflowClient, run: str, files: Mapping[str, bytes]) -> None:
    """Files as artifacts of a run, by their path there."""
    with private_folder() as folder:
        for name, content in files.items():
            path = folder.path / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        client.log_artifacts(run, str(folder.path / "files"))


def leave_report(uri: str, name: str, tags: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    """The files as artifacts of the run `name` among the reports; the same name again replaces them."""
    client = connect(uri)
    known = client.get_experiment_by_name(REPORTS)
    experiment = known.experiment_id if known else client.create_experiment(REPORTS, artifacts_of(uri))
    marked = {"co2l.kind": "report", "co2l.report": name}
    condition = " and ".join(f"tags.`{key}` = '{value}'" for key, value in marked.items())
    found = client.search_runs([experiment], condition, max_results=1)
    run = found[0] if found else client.create_run(experiment, tags=marked, run_name=name)
    for key, value in tags.items():
        client.set_tag(run.info.run_id, key, value)
    upload(client, run.info.run_id, files)
    client.set_terminated(run.info.run_id)
