"""What happens in a search, told to MLflow by the driver alone: a parent run per study, a child per cell.

All that is told goes first into a spool file, from which one background thread sends it in order. So telling takes
no time, a server that is away delays nothing and loses nothing, and what a dead driver had not yet sent the next one
sends. Every operation may be repeated without effect, for a reply can be lost after the server did what was asked.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import numbers
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import requests

from co2l.errors import Co2lError
from co2l.search.document import VARIANT
from co2l.search.evaluation import OverSeeds
from co2l.search.reports import Report
from co2l.search.selection import Selected
from co2l.search.space import Cell, Space
from co2l.search.tracking.outbox import Outbox, code, line, without_password
from co2l.search.tracking.pages import evaluation_note, run_name, search_note
from co2l.search.tracking.runs import Point, Record, check, database_of, leave_report

if TYPE_CHECKING:  # it takes a second to import
    from matplotlib.figure import Figure

Status = Literal["finished", "failed", "pruned", "killed"]

ACCURACIES = ("class_il", "task_il", "domain_il", "score")
METRICS = {"lr", *(f"{judge}/{name}" for judge in ("val", "test") for name in ACCURACIES)}  # and every loss
OPEN_SECONDS = 60
_log = logging.getLogger(__name__)


class Tracker:
    """Made by `open`. Its methods return at once; `close` waits for what was told to arrive."""

    def __init__(self, space: Space, outbox: Outbox, record: Record) -> None:
        self._space, self._outbox, self._record = space, outbox, record
        self._closed = False

    @classmethod
    def open(cls, uri: str, study: str, *, space: Space, artifact_root: str | None, spool: Path) -> Tracker:
        """Connect, find or create the study's run, and begin to send what the folder `spool` still holds for it."""
        new = False
        if uri.startswith("sqlite:"):
            database = database_of(uri)
            new = check(database)
            artifact_root = artifact_root or str(database.parent / "artifacts")
        if artifact_root and "://" not in artifact_root:
            artifact_root = Path(artifact_root).absolute().as_uri()
        name = hashlib.sha256(f"{uri} {study} {space.digest}".encode()).hexdigest()[:16]
        record = Record(uri, study, space, artifact_root)
        outbox = Outbox(spool / f"{name}.jsonl", record.perform)
        if not new:  # the tables of a new database take seconds, and nothing can be wrong with them
            tried = outbox.tried.wait(OPEN_SECONDS)
            if outbox.error or not tried:
                outbox.close(0)
                raise _cannot_open(uri, outbox.error)
        tracker = cls(space, outbox, record)
        tracker._put("start")
        return tracker

    @property
    def waiting(self) -> int:
        """How many operations have not arrived yet."""
        return self._outbox.waiting

    @property
    def trouble(self) -> str:
        """Why nothing arrives at present, if so."""
        return line(self._outbox.error) if self._outbox.error else ""

    @property
    def page(self) -> str:
        """Where the UI shows the study's trials, as the end of an address; empty before there is a connection."""
        return self._record.page

    def begin(self, cell: Cell) -> None:
        """The cell starts, or starts again: its run is found again by its key."""
        config = cell.config.as_dict()
        split = {f"split.{name}": value for name, value in config.pop("split").items()}
        variant = {VARIANT: cell.values[VARIANT]} if VARIANT in cell.values else {}
        params = {**config.pop("settings"), **config, **split, **variant}
        told = {key: str(value)[:6000] for key, value in params.items()}
        self._put("begin", cell=cell.key, name=run_name(self._space, cell), params=told)

    def report(self, cell_key: str, report: Report) -> None:
        """Never waits and never raises."""
        if points := _points(report):
            self._put("report", cell=cell_key, points=points)

    def end(self, cell_key: str, status: Status, report: Report | None = None, reason: str = "") -> None:
        """The cell's run ends; `report` is the cell's last one, and brings the result if there is one."""
        tags = {"co2l.status": status, **({"co2l.reason": reason[:2000]} if reason else {})}
        if report:
            tags["co2l.epochs_trained"] = str(report.epochs_trained)
            tags["co2l.epochs_reused"] = str(report.epochs_reused)
        points, result = (_points(report), report.result) if report else ([], None)
        self._put("end", cell=cell_key, status=status, tags=tags, points=points, result=result)

    def reconcile(self, states: Mapping[str, str]) -> None:
        """End the runs that a dead driver left running: as `states` says by cell key, else as killed.

        A cell whose state is none of finished, failed, pruned and killed is left as it is.
        """
        self._put("reconcile", states=dict(states))

    def close_study(
        self,
        *,
        selected: Sequence[Selected],
        table: Sequence[Mapping[str, Any]],
        figures: Mapping[str, Figure],
        price: Mapping[str, float],
        complete: bool = True,
    ) -> None:
        """The outcome: what was selected, a row per cell, figures, and the price paid.

        Not `complete` if cells are left to run: then the study's run ends as killed.
        """
        from co2l.search.figures import outcome

        chosen = [each.as_dict(self._space) for each in selected]
        files = outcome(self._space.canonical(), table, selected=chosen, figures=figures)
        cells = sorted({cell for each in selected for cell in each.cells})
        note = search_note(self._space, selected, figures)
        self._conclude(files, note, price, {}, complete=complete, cells=cells)

    def register(self, cell: Cell, model: str, *, store: str, key: str, alias: str | None) -> None:
        """The classifier of the cell, exported under `key`, becomes a version of a model in the registry."""
        config = cell.config.as_dict()
        described = {name: config[name] for name in ("benchmark", "method", "settings")}
        self._put("model", cell=cell.key, name=model, config=described, store=store, key=key, alias=alias)

    def close_evaluation(
        self,
        *,
        rows: Sequence[OverSeeds],
        table: Sequence[Mapping[str, Any]],
        price: Mapping[str, float],
        complete: bool = True,
    ) -> None:
        """The outcome: mean ± std over seeds for every configuration, a row per cell, and the price paid."""
        from co2l.search.figures import outcome

        shown = [
            {"configuration": row.name, "seeds": len(row.seeds), **{name: row.shown(name) for name in row.accuracies}}
            for row in rows
        ]
        metrics: dict[str, float] = {}
        for row in rows:
            of = f"{re.sub(r'[^A-Za-z0-9_. -]+', '_', row.name)}/" if len(rows) > 1 else ""
            for name in row.accuracies:
                metrics[f"{of}test/{name}/mean"] = row.mean(name)
                if (std := row.std(name)) is not None:
                    metrics[f"{of}test/{name}/std"] = std
        files = outcome(self._space.canonical(), table, tested=shown)
        self._conclude(files, evaluation_note(self._space, rows), price, metrics, complete=complete)

    def _conclude(
        self,
        files: Mapping[str, bytes],
        note: str,
        price: Mapping[str, float],
        metrics: Mapping[str, float],
        *,
        complete: bool,
        cells: Sequence[str] = (),
    ) -> None:
        packed = {name: base64.b64encode(content).decode() for name, content in files.items()}
        spent = {f"price/{name}": float(value) for name, value in price.items()}
        self._closed = True
        status = "finished" if complete else "killed"
        self._put("study", status=status, files=packed, cells=list(cells), metrics={**spent, **metrics}, note=note)

    def close(self, patience: float) -> int:
        """Send what waits, until nothing arrives for `patience` seconds; how much is left in the spool for later."""
        if not self._closed:
            self._put("stop")
        left = self._outbox.close(patience)
        if left:
            _log.warning("%d reports for MLflow wait in %s; the next start sends them", left, self._outbox.path)
        return left

    def _put(self, kind: str, **content: Any) -> None:
        try:
            self._outbox.put({"kind": kind, "time": int(time.time() * 1000), **content})
        except Exception as error:  # a search does not end because its disk is full
            _log.warning("not tracked: %s (%s)", kind, error)


def log_report(uri: str, name: str, *, studies: Sequence[str], files: Mapping[str, bytes]) -> None:
    """A report as artifacts of a run of its own, found again by `name`; at once, and an error if it cannot be."""
    if uri.startswith("sqlite:"):
        check(database_of(uri))
    try:
        leave_report(uri, name, {"co2l.studies": ", ".join(studies)[:5000]}, files)
    except Exception as error:
        raise _cannot_open(uri, error) from None


def _points(report: Report) -> list[Point]:
    """The metrics that are tracked; MLflow has no infinity."""
    at = int(time.time() * 1000)
    wanted = {name: value for name, value in report.metrics.items() if name in METRICS or name.startswith("loss/")}
    return [(name, float(value), report.epoch, at) for name, value in wanted.items() if _is_finite(value)]


def _is_finite(value: object) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)


def _cannot_open(uri: str, error: Exception | None) -> Co2lError:
    where, cause = without_password(uri), error.__context__ if error else None
    fix = "start the tracking server, or give another --tracking-uri"
    if isinstance(error, Co2lError):
        return Co2lError(error.what, where=where, fix=error.fix)
    if error is None or isinstance(cause, requests.Timeout) or "timed out" in str(cause):
        return Co2lError("the tracking server does not answer", where=where, fix=fix)
    if isinstance(cause, requests.ConnectionError):
        return Co2lError("the tracking server cannot be reached", where=where, fix=fix)
    if code(error) in ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED"):
        fix = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        return Co2lError("the tracking server does not let us in", where=where, fix=fix)
    return Co2lError(f"the tracking server cannot be used ({line(error)})", where=where, fix=fix)
