"""The flags that commands share: where searches and evaluations run, and where their results go."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from co2l.cli.console import PRIVATE, mask_of
from co2l.cli.quantities import COUNT, SECONDS, real
from co2l.errors import Co2lError, headline, url_shown
from co2l.files import user_path
from co2l.names import check_name
from co2l.shipped import space_file

if TYPE_CHECKING:
    from co2l.learning.advice import TaskSize
    from co2l.search.running.local_ray import LocalRay
    from co2l.search.service import Options
    from co2l.search.space.budget import Budget
    from co2l.search.space.space import Space
    from co2l.search.upkeep import Locations

    S = TypeVar("S", bound=Space)


def add_record_arguments(p: argparse.ArgumentParser) -> None:
    """Where the record of searches and evaluations is."""
    p.add_argument("--root", help="folder that searches wrote to (default: $CO2L_ROOT or runs)")
    p.add_argument("--storage", metavar="URL", help="Optuna storage (default: ROOT/study.db)")


def add_storage_arguments(where: argparse._ArgumentGroup) -> None:
    """Where the results of searches and evaluations are."""
    where.add_argument("--root", help="folder for study, tracking, store, selection (default: runs)")
    where.add_argument("--store", metavar="URL", help="folder or bucket for checkpoints (default: ROOT/store)")
    where.add_argument("--storage", metavar="URL", help="Optuna storage (default: ROOT/study.db)")
    where.add_argument("--tracking-uri", metavar="URI", help="MLflow (default: ROOT/mlflow.db)")


def add_engine_arguments(p: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    where = p.add_argument_group("where to run and what to write")
    add_storage_arguments(where)
    where.add_argument("--fresh", action="store_true", help="discard its record and start over")
    where.add_argument("--data", help="folder with the datasets (default: $CO2L_DATA or ./data)")
    where.add_argument("--address", help="address of a Ray cluster (default: this machine)")
    where.add_argument("--wait", type=SECONDS, default=120.0, metavar="SECONDS", help="time for a cluster's first node")
    where.add_argument("--cpus-per-trial", type=real(0.01, 1e4), metavar="N", help="instead of the space's")
    where.add_argument(
        "--gpus-per-trial", type=real(0, 1e4), metavar="N", help="instead of the space's; may be a fraction"
    )
    where.add_argument("--max-concurrent", type=COUNT, metavar="N", help="trials at once (default: all that fit)")
    where.add_argument("--time-budget", type=SECONDS, metavar="SECONDS", help="stop cleanly after this time")
    where.add_argument(
        "--save-every",
        type=SECONDS,
        default=60.0,
        metavar="SECONDS",
        help="time between checkpoints within a task",
    )
    add_umask_argument(where)
    where.add_argument("--no-reuse", action="store_true", help="train every trial alone, sharing no stages")
    p.add_argument("--verbose", action="store_true", help="a line for every trial that begins or ends")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    return where


def add_import_argument(what: argparse._ActionsContainer) -> None:
    hint = "a file or module with methods, benchmarks, … of your own; repeatable"
    what.add_argument("--import", dest="imports", metavar="FILE", action="append", default=[], help=hint)


def use_imports(args: argparse.Namespace) -> None:
    """Make known what the imports of a command add."""
    if args.imports:
        from co2l.imports import use_given

        use_given(args.imports)


def protocol_of(given: str | None) -> object:
    """The value of --protocol as a space's file says it; None if there is none."""
    name, _, number = (given or "").partition("=")
    if given is None or given in ("end", "greedy"):
        return given
    if name in ("first_k", "greedy") and re.fullmatch("[0-9]{1,9}", number):
        return {"first_k": int(number)} if name == "first_k" else {"greedy": {"beam": int(number)}}
    fix = "use end, first_k=2, greedy or greedy=2; transfer is described in the space's file"
    raise Co2lError(f"'{given}' is no protocol", where="--protocol", fix=fix)


def add_umask_argument(where: argparse._ArgumentGroup) -> None:
    hint = "permissions that new files lack, such as 007 for a group that shares them (default: 077)"
    where.add_argument("--umask", type=mask_of, default=PRIVATE, metavar="OCTAL", help=hint)


def root_of(args: argparse.Namespace) -> Path:
    return _folder(args.root or os.environ.get("CO2L_ROOT") or "runs")


def store_root(root: str) -> str:
    """The value of a --root that may be a URL."""
    if not root.strip():
        raise Co2lError(f"'{root}' is empty", where="--root", fix="give a folder")
    return root if "://" in root else str(_folder(root))


def _folder(text: str) -> Path:
    """The folder, which is there or can be made."""
    try:
        root = user_path(text, "--root").absolute()
        above = next(path for path in (root, *root.parents) if path.exists())
    except OSError as error:  # too long a name
        raise Co2lError(
            f"'{text}' cannot be a folder ({headline(error)})", where="--root", fix="give another"
        ) from None
    if not above.is_dir():
        raise Co2lError(f"{above} is a file", where="--root", fix="give a folder")
    return root


def store_of(args: argparse.Namespace) -> str:
    return args.store or os.environ.get("CO2L_STORE") or f"{root_of(args)}/store"


def storage_of(args: argparse.Namespace) -> str:
    from co2l.search.record.locks import location
    from co2l.urls import sqlite_url

    given = args.storage or os.environ.get("CO2L_STORAGE") or sqlite_url(root_of(args) / "study.db")
    location(given)
    return str(given)


def tracking_of(args: argparse.Namespace) -> str:
    from co2l.urls import check_tracking_uri, sqlite_url

    given = args.tracking_uri or os.environ.get("CO2L_TRACKING_URI") or sqlite_url(root_of(args) / "mlflow.db")
    check_tracking_uri(given)
    return given


def check_targets(args: argparse.Namespace) -> None:
    """Where a search will write, before its first words in a log: the line about a wrong flag stays alone."""
    from co2l.learning.store import Store

    storage_of(args)
    tracking_of(args)
    Store(store_of(args)).check()


def locations_of(args: argparse.Namespace) -> Locations:
    """Where studies leave something; an error if nothing was ever recorded there."""
    from co2l.search.record.storage import connect_to_read
    from co2l.search.upkeep import Locations

    connect_to_read(storage_of(args))
    return Locations(root_of(args), store_of(args), storage_of(args), tracking_of(args))


def with_resources(space: S, args: argparse.Namespace) -> S:
    """The space with the resources given by flags, if any."""
    cpus, gpus = args.cpus_per_trial, args.gpus_per_trial
    if cpus is None and gpus is None:
        return space
    now = space.resources
    resources = {"cpus": now.cpus if cpus is None else cpus, "gpus": now.gpus if gpus is None else gpus}
    return space.replace(resources=resources, where="--cpus-per-trial, --gpus-per-trial")


def sizes_of(space: Space, args: argparse.Namespace) -> tuple[TaskSize, ...]:
    """The examples of each task; nothing is known of a cluster's data."""
    from co2l.data.root import data_root
    from co2l.learning.advice import task_sizes

    if args.address is not None:
        return ()
    return task_sizes(space.any_trial().config.open_stream(data_root()))


def options_of(
    args: argparse.Namespace,
    study: str,
    early: LocalRay | None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    from_study: str | None = None,
    model: str | None = None,
) -> Options:
    from co2l.data.root import data_root
    from co2l.search.service import Options

    return Options(
        root=root_of(args),
        study=study,
        data=data_root(),
        store=store_of(args),
        storage=storage_of(args),
        tracking_uri=tracking_of(args),
        address=args.address,
        wait=args.wait,
        early=early,
        seed=seed,
        max_concurrent=args.max_concurrent,
        time_budget=args.time_budget,
        budget=budget,
        reuse=not args.no_reuse,
        fresh=args.fresh,
        from_study=from_study,
        save_every=args.save_every,
        model=model,
        kept=Path(kept) if (kept := os.environ.get("CO2L_KEPT_ROOT")) else None,
    )


class Flags(NamedTuple):
    """Flags that a command was given, as it repeats them in the commands it suggests: without passwords."""

    to_read: str  # where results are
    to_run: str  # these, and what training needs


def given_flags(args: argparse.Namespace) -> Flags:
    def typed(*names: str) -> str:
        given = {name: getattr(args, name.replace("-", "_")) for name in names}
        shown = {name: _shown(str(value)) for name, value in given.items() if value is not None}
        return "".join(f" --{name} {shlex.quote(text)}" for name, text in shown.items())

    from co2l.imports import active

    imports = "".join(f" --import {shlex.quote(each.path)}" for each in active())
    read = imports + typed("root", "store", "storage", "tracking-uri")
    return Flags(read, read + typed("data", "address", "cpus-per-trial", "gpus-per-trial"))


def _shown(value: str) -> str:
    """A flag's value; a path may look as if it had a password and has none."""
    return url_shown(value) if "://" in value and not value.startswith("sqlite:") else value


def study_of(path: str) -> str:
    """A study is named after its space's file, and after the folder if that is below search_spaces."""
    parts = space_file(path).absolute().with_suffix("").parts
    name = "-".join(parts[parts.index("search_spaces") + 1 :]) if "search_spaces" in parts else parts[-1]
    return check_name(name, f"the name of {path}")
