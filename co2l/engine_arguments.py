"""Where searches and evaluations run and what they leave: the flags that commands share, and what they mean."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from co2l.search.service import Options
    from co2l.search.space import Space

    S = TypeVar("S", bound=Space)


def add_place_arguments(where: argparse._ArgumentGroup) -> None:
    """Where what searches and evaluations leave is found."""
    where.add_argument("--root", help="folder of study, tracking, store, selection (default: runs)")
    where.add_argument("--store", metavar="URL", help="folder or bucket of states (default: ROOT/store)")
    where.add_argument("--storage", metavar="URL", help="Optuna storage (default: ROOT/study.db)")
    where.add_argument("--tracking-uri", metavar="URI", help="MLflow (default: ROOT/mlflow.db)")


def add_engine_arguments(p: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    where = p.add_argument_group("where it runs and what it leaves")
    add_place_arguments(where)
    where.add_argument("--fresh", action="store_true", help="discard what is recorded of it and start again")
    where.add_argument("--data", help="folder of the datasets (default: $CO2L_DATA or ./data)")
    where.add_argument("--address", help="a Ray cluster (default: this machine)")
    where.add_argument("--cpus-per-trial", type=float, metavar="N", help="instead of the space's")
    where.add_argument("--gpus-per-trial", type=float, metavar="N", help="instead of the space's; may be a fraction")
    where.add_argument("--max-concurrent", type=int, metavar="N", help="trials at once (default: all that fit)")
    where.add_argument("--time-budget", type=float, metavar="SECONDS", help="stop cleanly after this time")
    where.add_argument("--save-every", type=float, default=60.0, metavar="SECONDS", help="between mid-task states")
    where.add_argument("--no-reuse", action="store_true", help="train every cell alone, sharing no stages")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return where


def root_of(args: argparse.Namespace) -> Path:
    return Path(args.root or os.environ.get("CO2L_ROOT") or "runs").expanduser().absolute()


def store_of(args: argparse.Namespace) -> str:
    return args.store or os.environ.get("CO2L_STORE") or f"{root_of(args)}/store"


def storage_of(args: argparse.Namespace) -> str:
    return args.storage or os.environ.get("CO2L_STORAGE") or f"sqlite:///{root_of(args)}/study.db"


def tracking_of(args: argparse.Namespace) -> str:
    return args.tracking_uri or os.environ.get("CO2L_TRACKING_URI") or f"sqlite:///{root_of(args)}/mlflow.db"


def with_resources(space: S, args: argparse.Namespace) -> S:
    """The space with the flags' resources instead of its own."""
    cpus, gpus = args.cpus_per_trial, args.gpus_per_trial
    if cpus is None and gpus is None:
        return space
    now = space.resources
    resources = {"cpus": now.cpus if cpus is None else cpus, "gpus": now.gpus if gpus is None else gpus}
    return space.replace(resources=resources, where="--cpus-per-trial, --gpus-per-trial")


def options_of(args: argparse.Namespace, study: str, *, seed: int = 0, model: str | None = None) -> Options:
    from co2l.data.sources import data_root
    from co2l.search.service import Options

    return Options(
        root=root_of(args),
        study=study,
        data=data_root(args.data),
        store=store_of(args),
        storage=storage_of(args),
        tracking_uri=tracking_of(args),
        address=args.address,
        seed=seed,
        max_concurrent=args.max_concurrent,
        time_budget=args.time_budget,
        reuse=not args.no_reuse,
        fresh=args.fresh,
        save_every=args.save_every,
        model=model,
    )


def study_of(path: str) -> str:
    """A space's study has its file's name, and if that is in a folder of search_spaces, the folder's too."""
    parts = Path(path).absolute().with_suffix("").parts
    return "-".join(parts[parts.index("search_spaces") + 1 :]) if "search_spaces" in parts else parts[-1]
