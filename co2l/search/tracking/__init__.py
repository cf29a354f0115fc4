"""Tracking a search in MLflow, by the driver alone: a parent run per study, a child per trial.

Every operation first goes into a spool file, from which one background thread sends it in order. So tracking takes no
time, an unreachable server delays and loses nothing, and the next driver sends what a dead one had not yet sent. Every
operation is idempotent, because a reply can get lost after the server did the work.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from co2l.errors import Co2lError, url_shown
from co2l.search.record.earlier import Earlier
from co2l.search.record.entries import Cost, Entry, Status
from co2l.search.running.reports import Report
from co2l.search.selection.rule import Selected
from co2l.search.selection.seeds import SeedSummary
from co2l.search.space.naming import named
from co2l.search.space.space import Space
from co2l.search.space.trial import Trial
from co2l.search.tracking import operations
from co2l.search.tracking.connection import check, database_of
from co2l.search.tracking.operations import rounded
from co2l.search.tracking.outbox import Outbox, code, line
from co2l.search.tracking.pages import evaluation_note, model_note, search_note, version_note
from co2l.search.tracking.runs import TrackedStudy, leave_report

OPEN_SECONDS = 60
_log = logging.getLogger(__name__)


class Tracker:
    """Created by `open`. Its methods return at once; `close` waits until everything has arrived."""

    def __init__(self, space: Space, outbox: Outbox, tracked: TrackedStudy) -> None:
        self._space, self._outbox, self._tracked = space, outbox, tracked
        self._closed = False

    @classmethod
    def open(
        cls, uri: str, study: str, *, space: Space, spool: Path, identity: str = "", earlier: Earlier | None = None
    ) -> Tracker:
        """Connect, find or create the study's run, and start sending what the folder `spool` still holds for it.

        `identity` is the digest of the space that the study was started with, if it has grown since; `earlier` what it
        took from another study when it was begun.
        """
        identity = identity or space.digest
        new = uri.startswith("sqlite:") and check(database_of(uri))
        tracked = TrackedStudy(uri, study, space, identity, earlier)
        outbox = Outbox(spool_file(uri, study, identity, spool), tracked.perform)
        if not new:  # creating the tables of a new database takes seconds, and cannot go wrong
            tried = outbox.tried.wait(OPEN_SECONDS)
            if outbox.error or not tried:
                outbox.close(0)
                raise cannot_open(uri, outbox.error)
        tracker = cls(space, outbox, tracked)
        tracker._put({"kind": "start"})
        return tracker

    @property
    def waiting(self) -> int:
        """How many operations have not arrived at the server yet."""
        return self._outbox.waiting

    @property
    def trouble(self) -> str:
        """Why nothing arrives at the moment; empty if all is well."""
        return line(self._outbox.error) if self._outbox.error else ""

    @property
    def page(self) -> str:
        """Where the UI shows the study's trials, as the end of an address; empty until connected."""
        return self._tracked.page

    def begin(self, trial: Trial) -> None:
        """The trial starts or restarts; a restarted trial's run is found by its key."""
        self._put(operations.begin(self._space, trial))

    def report(self, trial_key: str, report: Report) -> None:
        """Log a report's metrics; never waits and never raises."""
        if (operation := operations.report(trial_key, report))["points"]:
            self._put(operation)

    def end(self, trial_key: str, status: Status, report: Report | None = None, reason: str = "") -> None:
        """The trial's run ends, for now if it is pending; `report` is its last one, with the result if there is one."""
        self._put(operations.end(trial_key, status, report, reason))

    def reconcile(self, recorded: Mapping[str, Entry]) -> None:
        """One run for every trial that has ended, with its result, sent again if missing; and no run left running."""
        self._put(self._tracked.reconciling(recorded.values()))

    def close_study(
        self,
        *,
        selected: Sequence[Selected],
        entries: Collection[Entry],
        shares: Mapping[str, float],
        table: Sequence[Mapping[str, Any]],
        cost: Cost,
        complete: bool = True,
    ) -> None:
        """Log how the search ended: what was selected, the importance of each axis, a row per trial, and the cost.

        If trials are left to run, the study is not `complete`, and its run ends as pending.
        """
        from co2l.search.tracking.figures import study_files
        from co2l.search.tracking.search_figures import search_figures

        chosen = [each.as_dict(self._space) for each in selected]
        trials = sorted({trial for each in selected for trial in each.trials})
        figures = search_figures(self._space, entries, shares, trials)
        files = study_files(self._space.canonical(), table, selected=chosen, figures=figures)
        metrics: dict[str, float] = {}
        for each in selected:
            of = _group(named(each.group)) if len(selected) > 1 else ""
            found = {f"val/{name}": value for name, value in each.accuracies.items()}
            metrics |= {f"{of}{name}": value for name, value in {self._space.objective: each.score, **found}.items()}
        metrics |= {f"importance/{name}": share for name, share in shares.items()}
        note = search_note(self._space, selected, figures)
        self._conclude(files, note, cost, metrics, complete=complete, trials=trials)

    def register(
        self, trial: Trial, model: str, *, store: str, key: str, aliases: Sequence[str], tested: SeedSummary
    ) -> None:
        """Register the trial's classifier, exported under `key`, as a version of a model, and say what was `tested`."""
        config = trial.config.as_dict()
        described = {name: config[name] for name in ("benchmark", "method", "seed", "settings")}
        about = {"about": model_note(self._space, model), "version_about": version_note(self._space, trial, tested)}
        where = {"store": store, "key": key, "aliases": list(aliases)}
        self._put({"kind": "model", "trial": trial.key, "name": model, "config": described, **where, **about})

    def close_evaluation(
        self,
        *,
        rows: Sequence[SeedSummary],
        table: Sequence[Mapping[str, Any]],
        cost: Cost,
        complete: bool = True,
    ) -> None:
        """Log how the evaluation ended: mean ± std over seeds for every configuration, a row per trial, the cost."""
        from co2l.search.tracking.figures import study_files

        shown = [
            {"configuration": row.name, "seeds": len(row.seeds), **{name: row.shown(name) for name in row.accuracies}}
            for row in rows
        ]
        metrics: dict[str, float] = {}
        for row in rows:
            of = _group(row.name) if len(rows) > 1 else ""
            for name in row.accuracies:
                metrics[f"{of}test/{name}/mean"] = row.mean(name)
                if (std := row.std(name)) is not None:
                    metrics[f"{of}test/{name}/std"] = std
        files = study_files(self._space.canonical(), table, tested=shown)
        self._conclude(files, evaluation_note(self._space, rows), cost, metrics, complete=complete)

    def _conclude(
        self,
        files: Mapping[str, bytes],
        note: str,
        cost: Cost,
        metrics: Mapping[str, float],
        *,
        complete: bool,
        trials: Sequence[str] = (),
    ) -> None:
        packed = {name: base64.b64encode(content).decode() for name, content in files.items()}
        spent = {f"cost/{name}": float(value) for name, value in cost.as_dict().items()}
        shown = {name: rounded(name, value) for name, value in {**metrics, **spent}.items()}  # the UI keeps the order
        self._closed = True
        status: Status = "done" if complete else "pending"
        told = {
            "status": status,
            "files": packed,
            "trials": list(trials),
            "metrics": shown,
            "note": note,
        }
        self._put({"kind": "study", **told})

    def close(self, patience: float) -> int:
        """Send what is waiting, until nothing gets through for `patience` seconds. Returns how much is left to send."""
        if not self._closed:
            self._put({"kind": "stop"})
        left = self._outbox.close(patience)
        if left:
            _log.warning("%d reports for MLflow wait in %s; the next run sends them", left, self._outbox.path)
        return left

    def _put(self, operation: operations.Operation) -> None:
        try:
            self._outbox.put({"time": operations.now(), **operation})
        except Exception as error:  # a full disk does not end a search
            _log.warning("not tracked: %s (%s)", operation["kind"], error)


def spool_file(uri: str, study: str, identity: str, spool: Path) -> Path:
    """Where operations of a study wait for a server."""
    where = url_shown(uri)
    if uri.startswith("sqlite:"):
        where = os.path.relpath(database_of(uri), spool)  # both may be moved together
    name = hashlib.sha256(f"{where} {study} {identity}".encode()).hexdigest()[:16]
    return spool / f"{name}.jsonl"


def log_report(uri: str, name: str, *, studies: Sequence[str], files: Mapping[str, bytes]) -> None:
    """Log a report as artifacts of a separate run, found again by `name`; immediately, raising an error if it fails."""
    if uri.startswith("sqlite:"):
        check(database_of(uri))
    try:
        leave_report(uri, name, {"co2l.studies": ", ".join(studies)[:5000]}, files)
    except Exception as error:
        raise cannot_open(uri, error) from None


def _group(name: str) -> str:
    """What metrics of one configuration among several begin with."""
    return f"{re.sub(r'[^A-Za-z0-9_. -]+', '_', name)}/"


def cannot_open(uri: str, error: Exception | None) -> Co2lError:
    where, cause = url_shown(uri), error.__context__ if error else None
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
