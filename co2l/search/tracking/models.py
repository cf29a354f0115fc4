"""A classifier as a model in MLflow's registry: raw images in, probabilities out, in a format that runs no code.

The model is a graph exported by torch (`pt2`). It needs torch to run, and nothing of this package.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from co2l.errors import Co2lError
from co2l.search.running.private_folder import private_folder
from co2l.search.tracking.outbox import code

if TYPE_CHECKING:  # it takes seconds to import
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

FOLDER = "model"  # among the artifacts of the seed's run


def register(
    client: MlflowClient,
    run: str,
    name: str,
    *,
    config: Mapping[str, Any],
    store: str,
    key: str,
    aliases: Sequence[str],
    about: str,
    version_about: str,
) -> None:
    """The classifier under `key` in the store becomes a version of model `name`, unless it is one already.

    What is said about model and version is written anew: more seeds may have been tested since.
    """
    version = _find(client, name, key) or _create(client, run, name, config=config, store=store, key=key)
    client.update_registered_model(name, about)
    client.update_model_version(name, version.version, version_about)
    for alias in aliases:
        client.set_registered_model_alias(name, alias, version.version)


def _find(client: MlflowClient, name: str, key: str) -> ModelVersion | None:
    versions = client.search_model_versions(f"name='{name}'")
    return next((version for version in versions if version.tags.get("co2l.export") == key), None)


def _create(
    client: MlflowClient, run: str, name: str, *, config: Mapping[str, Any], store: str, key: str
) -> ModelVersion:
    with private_folder() as folder:
        _save(f"{folder.path}/{FOLDER}", config, store, key)
        client.log_artifacts(run, f"{folder.path}/{FOLDER}", FOLDER)
    try:
        client.create_registered_model(name)
    except Exception as error:
        if code(error) != "RESOURCE_ALREADY_EXISTS":
            raise
    source = f"{client.get_run(run).info.artifact_uri}/{FOLDER}"
    return client.create_model_version(name, source, run, tags={"co2l.export": key}, await_creation_for=0)


def _save(path: str, config: Mapping[str, Any], store: str, key: str) -> None:
    import mlflow.pytorch
    import numpy
    import torch
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    from co2l.learning.export import rebuild
    from co2l.learning.methods import METHODS, configure
    from co2l.learning.store import Store

    weights = Store(store).load_state(key)
    if weights is None:
        raise Co2lError("the classifier to be registered is gone", where=f"{store}/{key}", fix="evaluate it --fresh")
    described = configure(config["benchmark"], config["method"], config["settings"], seed=config["seed"])
    of = described.spec
    model = rebuild(METHODS[described.method], described, weights)
    images, classes = (-1, *of.image_shape), (-1, of.num_classes)
    signature = ModelSignature(
        inputs=Schema([TensorSpec(numpy.dtype("uint8"), images)]),
        outputs=Schema([TensorSpec(numpy.dtype("float32"), classes)]),
    )
    example = numpy.zeros((2, *of.image_shape), dtype=numpy.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow.pytorch.save_model(
            model,
            path,
            signature=signature,
            input_example=example,
            serialization_format="pt2",
            pip_requirements=[f"torch=={torch.__version__.partition('+')[0]}"],
        )
