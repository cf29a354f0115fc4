"""The runs of a study in MLflow, renamed or deleted with everything that belongs to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from co2l.errors import Co2lError
from co2l.search.tracking import cannot_open
from co2l.search.tracking.connection import connect, database_of
from co2l.search.tracking.runs import KINDS

if TYPE_CHECKING:  # it takes seconds to import
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARENTS = {parent for parent, _ in KINDS.values()}


@dataclass(frozen=True)
class ModelVersion:
    """A registered model that is stored among the artifacts of a run."""

    name: str
    version: str
    aliases: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} version {self.version}" + "".join(f" @{alias}" for alias in self.aliases)


class StudyRuns:
    """The runs of one study, found by their tag; none if nothing was ever tracked there."""

    def __init__(self, uri: str, study: str) -> None:
        self._uri = uri
        self._client: MlflowClient | None = None
        self._runs: list[Run] = []
        if uri.startswith("sqlite:") and not database_of(uri).is_file():
            return
        with _reaching(uri):
            self._client = connect(uri)
            self._runs = list(_runs_of(self._client, study))

    def __len__(self) -> int:
        return len(self._runs)

    def models(self) -> list[ModelVersion]:
        """Registered models that would be lost with these runs."""
        if self._client is None or not self._runs:
            return []
        with _reaching(self._uri):
            ours = {run.info.run_id for run in self._runs}
            found = []
            for model in _all(self._client.search_registered_models):
                aliases: dict[str, list[str]] = {}
                for alias, version in self._client.get_registered_model(model.name).aliases.items():
                    aliases.setdefault(str(version), []).append(alias)
                for each in _all(self._client.search_model_versions, f"name='{model.name}'"):
                    if each.run_id in ours:
                        names = tuple(sorted(aliases.get(str(each.version), ())))
                        found.append(ModelVersion(model.name, str(each.version), names))
            return found

    def rename(self, new: str) -> None:
        with _reaching(self._uri):
            for run in self._runs:
                assert self._client is not None
                if run.data.tags.get("co2l.kind") in PARENTS:
                    self._client.update_run(run.info.run_id, name=new)
                self._client.set_tag(run.info.run_id, "co2l.study", new)

    def delete(self) -> None:
        """Artifacts first: what is left of a deletion that was interrupted is found again, and deleted."""
        with _reaching(self._uri):
            for version in self.models():
                assert self._client is not None
                self._client.delete_model_version(version.name, version.version)
                if not list(_all(self._client.search_model_versions, f"name='{version.name}'")):
                    self._client.delete_registered_model(version.name)
            for run in sorted(self._runs, key=lambda run: run.data.tags.get("co2l.kind") in PARENTS):
                self._delete(run)
        self._runs = []

    def _delete(self, run: Run) -> None:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        assert self._client is not None
        artifacts: Any = get_artifact_repository(run.info.artifact_uri, tracking_uri=self._uri)
        artifacts.delete_artifacts()
        self._client.delete_run(run.info.run_id)
        store: Any = self._client._tracking_client.store
        if isinstance(store, SqlAlchemyStore):  # a server lets only its administrator do this, with `mlflow gc`
            hard_delete: Callable[[str], None] = store._hard_delete_run
            hard_delete(run.info.run_id)


def _runs_of(client: MlflowClient, study: str) -> Iterator[Run]:
    for experiment in _all(client.search_experiments, filter_string="name LIKE 'co2l/%'"):
        searched = [experiment.experiment_id], f"tags.`co2l.study` = '{study}'"
        yield from _all(client.search_runs, *searched)


def _all(search: Callable[..., Any], *arguments: object, **options: object) -> Iterator[Any]:
    """Every page of the answer to one of MLflow's searches."""
    token = None
    while True:
        page = search(*arguments, **options, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def _reaching(uri: str) -> Iterator[None]:
    try:
        yield
    except Co2lError:
        raise
    except Exception as error:  # MLflow raises many types
        raise cannot_open(uri, error) from None
