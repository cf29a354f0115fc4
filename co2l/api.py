"""The commands as functions, for notebooks and scripts: they do what the commands do and return what was found."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from co2l.cli.arguments import storage_of, store_root, study_of
from co2l.cli.console import PRIVATE, creating
from co2l.cli.display import Display
from co2l.cli.training import run_here
from co2l.data.root import data_below
from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.files import user_path, write_atomic
from co2l.learning.methods import configure
from co2l.names import check_name
from co2l.reporting import notebook
from co2l.reporting.notebook import Studies, Study
from co2l.reporting.trained_run import TrainedRun

Settings = Mapping[str, Any]


def load_study(root: str | Path, name: str) -> Study:
    """Open a study of `co2l tune` or `co2l evaluate`, read-only: `load_study("runs", "seq_digits").best()`.

    `root` is the folder that the command wrote to (`--root`), or the URL of a storage such as postgresql://….
    """
    return notebook.load_study(root, name)


def studies(root: str | Path = "runs") -> Studies:
    """All studies below a root, read-only; `studies("runs")["seq_digits"]` is one of them."""
    return notebook.studies(root)


def run_search(
    space: str | Path | Mapping[str, Any],
    *,
    study: str | None = None,
    settings: Settings | None = None,
    samples: int | None = None,
    from_study: str | None = None,
    root: str | Path = "runs",
    data: str | Path | None = None,
    address: str | None = None,
    max_concurrent: int | None = None,
    time_budget: float | None = None,
    fresh: bool = False,
    quiet: bool = False,
) -> Study:
    """Search a space as `co2l tune` does, or continue a search; an interrupted one returns what it has so far.

    `space` is the name of a shipped space, a file, or what such a file holds, which needs the name of a `study`.
    `settings` override those of the space; a list makes an axis. The other arguments are the command's flags.
    """
    from co2l import tune

    given = _file_of(space, study, Path(root)) if isinstance(space, Mapping) else str(space)
    words = _words(space=given, study=study, samples=samples, root=root, data=data, address=address)
    words += _words(from_study=from_study, max_concurrent=max_concurrent, time_budget=time_budget)
    words += [*_assignments(settings), *(["--fresh"] if fresh else []), *(["--quiet"] if quiet else [])]
    with data_below(data):
        _run(tune.main, words)
        return notebook.load_study(storage_of(tune.parser().parse_args(words)), study or study_of(given))


def run_evaluation(
    study: str | None = None,
    *,
    config: str | Path | None = None,
    space: str | Path | None = None,
    seeds: int = 10,
    name: str | None = None,
    settings: Settings | None = None,
    root: str | Path = "runs",
    data: str | Path | None = None,
    address: str | None = None,
    max_concurrent: int | None = None,
    quiet: bool = False,
) -> Study:
    """Test what a study selected, or the configurations of a file, as `co2l evaluate` does. It reads the test set.

    Give one of `study`, `config` and `space`. The evaluation is a study too, called `name` or as the command calls it.
    """
    from co2l import evaluate

    words = _words(study=study, config=config, space=space, seeds=seeds, name=name, root=root, data=data)
    words += _words(address=address, max_concurrent=max_concurrent)
    words += [*_assignments(settings), *(["--quiet"] if quiet else [])]
    own = study or (study_of(str(space)) if space else Path(str(config)).stem)
    with data_below(data):
        _run(evaluate.main, words)
        return notebook.load_study(storage_of(evaluate.parser().parse_args(words)), name or f"{own}.test")


def run_training(
    benchmark: str = "seq_digits",
    method: str = "co2l",
    settings: Settings | None = None,
    *,
    seed: int = 0,
    validation: float = 0.1,
    split_seed: int = 0,
    root: str | Path = "runs",
    data: str | Path | None = None,
    device: str = "auto",
    quiet: bool = False,
) -> TrainedRun:
    """Train one continual run in this process, evaluated on validation data, as `co2l train` does.

    The same call again continues an interrupted run, or returns the stored result.
    """
    split = Split("search", fraction=validation, seed=split_seed)
    where = store_root(str(root))
    with data_below(data), Display(quiet=quiet) as display, creating(PRIVATE):
        config = configure(benchmark, method, settings, seed=seed, split=split, where="settings")
        result, path = run_here(config, display, root=where, device=device, save_every=60.0)
    return TrainedRun(config, result, path)


def _file_of(space: Mapping[str, Any], study: str | None, root: Path) -> str:
    """A space that was given as plain data, in a file below the root: a search is continued from one."""
    if study is None:
        raise Co2lError("a space without a file has no name", where="run_search", fix="give study='NAME'")
    path = user_path(root, "root") / "spaces" / f"{check_name(study, 'study')}.yaml"
    with creating(PRIVATE):
        write_atomic(path, yaml.safe_dump(dict(space), sort_keys=False))
    return str(path)


def _words(**flags: object) -> list[str]:
    """Flags as they are typed; one that is None is left out."""
    given = {name.replace("_", "-"): value for name, value in flags.items() if value is not None}
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


def _assignments(settings: Settings | None) -> list[str]:
    return [word for name, value in (settings or {}).items() for word in ("--set", f"{name}={json.dumps(value)}")]


def _run(main: Callable[[Sequence[str]], int], words: Sequence[str]) -> None:
    """Without what the command prints at its end: the caller gets it as an object. Progress is shown as ever."""
    with contextlib.redirect_stdout(io.StringIO()):
        main(words)
