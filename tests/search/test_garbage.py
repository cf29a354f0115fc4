"""Nothing reachable is ever deleted, over random trees of studies; and what nobody needs is found."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import CPU, few_digits, short
from spaces import finish

from co2l.data.benchmarks import BENCHMARKS
from co2l.data.streams import Split
from co2l.errors import Co2lError
from co2l.learning.methods import METHODS, configure
from co2l.learning.run import run
from co2l.learning.store import Store
from co2l.search.garbage import claim_of, inventory
from co2l.search.record.lease import driving
from co2l.search.record.reachable import keys_of
from co2l.search.record.study import StudyRecord
from co2l.search.space.evaluation import of_space
from co2l.search.space.space import Space, parse
from co2l.search.upkeep import Locations, remove
from co2l.urls import sqlite_url

AXES: dict[str, list[Any]] = {  # every scope: all stages, task 1, later tasks, the evaluation
    "eta": [0.01, 0.02],
    "E_0": [1, 2],
    "kappa": [0.1, 0.2],
    "buffer_size": [50, "unlimited"],
    "probe_epochs": [1, 2],
    "tasks": [2, 5],
    "class_order": ["fixed", "seed"],
}
FOLDERS = ("aa" * 8, "bb" * 8)  # of two kinds of devices
NOW = timedelta(0)
Needed = frozenset[str]

trees = st.lists(
    st.tuples(
        st.lists(st.sampled_from(sorted(AXES)), min_size=1, max_size=2, unique=True),
        st.integers(1, 2),  # seeds
        st.sampled_from(["search", "evaluation", "random"]),
        st.integers(0, 3),  # trials that have ended
    ),
    min_size=1,
    max_size=4,
)


def space_with(axes: Sequence[str], seeds: int, kind: str) -> Space:
    document: dict[str, Any] = {"benchmark": "seq_digits", "axes": {name: AXES[name] for name in axes}}
    drawn = {"algorithm": "random", "samples": 2} if kind == "random" else {}
    space = parse({**document, **drawn, "seeds": list(range(seeds))}, "tree")
    return of_space(space, seeds) if kind == "evaluation" else space


def files_of(axes: Mapping[str, Any], seed: int, kind: str) -> Iterator[str]:
    """What one trial may have in a store, by the keys that a run computes itself: nothing of `reachable` is used."""
    split = Split("evaluation") if kind == "evaluation" else Split("search", 0.1, 0)
    config = configure("seq_digits", "co2l", dict(axes), seed=seed, split=split)
    last = axes.get("tasks", BENCHMARKS["seq_digits"].tasks) - 1
    for folder in FOLDERS:
        for t in range(last + 1):
            yield f"{folder}/{config.stage_key(t)}.state"
            yield f"{folder}/{config.stage_key(t)}.partial"
            yield f"{folder}/{config.row_key(t, 'fast')}.json"
            yield f"{folder}/{config.dead_key(config.stage_key(t))}.json"
        yield f"{folder}/{config.row_key(last, 'paper')}.json"
        for export in ("classifier", "features"):
            yield f"{folder}/{config.row_key(last, f'paper {export}')}.state"
    yield f"alone/{config.key}/{FOLDERS[0]}/{config.stage_key(0)}.state"


def needed_by(axes: Sequence[str], seeds: int, kind: str, ended: int) -> Needed:
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*(AXES[name] for name in axes))]
    trials = [(point, seed) for point in points for seed in range(seeds)]
    if kind == "random":  # which of the others it will draw is unknown
        trials = trials[:ended]
    if kind == "evaluation":  # more seeds continue it: those that have begun, and the first, are known
        known = {seed for _, seed in trials[:ended]} or {0}
        trials = [(point, seed) for point, seed in trials if seed in known]
    return frozenset(name for point, seed in trials for name in files_of(point, seed, kind))


def write(store: Path, names: Iterator[str] | Needed) -> None:
    for name in names:
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(b"x" * 10)


def held(store: Path) -> set[str]:
    found = {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith("claims/")}


@settings(max_examples=10)
@given(tree=trees, seed=st.integers(0, 2**31))
def test_only_what_no_study_needs_is_deleted(
    tree: list[tuple[list[str], int, str, int]], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root, rng = tmp_path_factory.mktemp("tree"), random.Random(seed)
    where = Locations(root, str(root / "store"), sqlite_url(root / "study.db"), sqlite_url(root / "mlflow.db"))
    needed: dict[str, Needed] = {}
    for i, (axes, seeds, kind, ended) in enumerate(tree):
        name, space = f"study{i}", space_with(axes, seeds, kind)
        record = StudyRecord.open(where.storage, name, space)
        for trial in list(space.trials())[:ended]:
            finish(record, trial)
        needed[name] = needed_by(axes, seeds, kind, len(list(space.trials())[:ended]))
    everything = frozenset().union(*needed.values())
    strangers = {f"{FOLDERS[0]}/{'0123' * 8}.state", f"alone/{'4567' * 8}/{FOLDERS[1]}/{'89ab' * 8}.json"}
    others = {"notes.txt", f"{FOLDERS[0]}/readme.md", "unfinished/0123"}  # not ours: never touched
    write(root / "store", everything | strangers | others)
    for name in rng.sample(sorted(needed), len(needed) - rng.randint(0, 1)):
        removed = needed.pop(name)
        remove(where, name)
        left = frozenset().union(*needed.values())
        assert left | others | strangers <= held(root / "store"), "rm deleted what another study needs"
        assert not (removed - left) & held(root / "store"), "rm left what nothing needs"
        if not needed:
            break
        store = Store(where.store)
        found = inventory(store, where.storage, min_age=NOW)
        assert not {file.name for file in found.garbage} & (left | others)
    found = inventory(Store(where.store), where.storage, min_age=NOW)
    for file in found.garbage:
        Store(where.store).remove(file)
    assert held(root / "store") == others | frozenset().union(*needed.values())


def studied(root: Path, name: str = "mine") -> tuple[str, Needed]:
    root.mkdir(exist_ok=True)
    storage = sqlite_url(root / "study.db")
    StudyRecord.open(storage, name, space_with(["eta"], 1, "search"))
    return storage, needed_by(["eta"], 1, "search", 0)


def test_another_record_that_claimed_the_store_counts(tmp_path: Path) -> None:
    """As on Slurm, where each search has its own root and all share the checkpoints."""
    store = Store(tmp_path / "store")
    mine, others = studied(tmp_path / "a")[0], studied(tmp_path / "b")
    write(tmp_path / "store", others[1])
    StudyRecord.open(mine, "other", space_with(["kappa"], 1, "search"))
    from co2l.search.record import upkeep

    upkeep.delete(mine, "mine")
    assert inventory(store, mine, min_age=NOW).garbage  # nobody said that another record needs them
    store.claim(claim_of(store, others[0]))
    store.claim(claim_of(store, others[0]))
    found = inventory(store, mine, min_age=NOW)
    assert (found.garbage, found.studies, len(found.records)) == ([], 2, 2)
    (tmp_path / "b" / "study.db").rename(tmp_path / "b" / "moved.db")
    with pytest.raises(Co2lError, match=r"claims this store and is not there; .* add --forget .*/b/study.db"):
        inventory(store, mine, min_age=NOW)
    assert inventory(store, mine, min_age=NOW, forget=[str(tmp_path / "b" / "study.db")]).garbage


def test_records_and_store_that_are_moved_together_still_belong_together(tmp_path: Path) -> None:
    storage, needed = studied(tmp_path / "runs")
    store = Store(tmp_path / "runs" / "store")
    store.claim(claim_of(store, storage))
    write(tmp_path / "runs" / "store", needed)
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    moved = Store(tmp_path / "elsewhere" / "store")
    assert inventory(moved, sqlite_url(tmp_path / "elsewhere" / "study.db"), min_age=NOW).garbage == []


def test_a_single_run_counts_until_it_is_forgotten(tmp_path: Path) -> None:
    storage, _ = studied(tmp_path)
    store = Store(tmp_path / "store")
    config = configure("seq_digits", "er", {"epochs": 7}, seed=3, split=Split("search", 0.2, 1))
    name = f"{FOLDERS[0]}/{config.stage_key(2)}.partial"
    write(tmp_path / "store", frozenset({name}))
    assert [file.name for file in inventory(store, storage, min_age=NOW).garbage] == [name]
    store.claim({"run": config.as_dict()})
    found = inventory(store, storage, min_age=NOW)
    assert (found.garbage, found.runs) == ([], 1)
    assert [file.name for file in inventory(store, storage, min_age=NOW, forget=["runs"]).garbage] == [name]


def test_what_is_young_stays(tmp_path: Path) -> None:
    storage, _ = studied(tmp_path)
    names = [f"{FOLDERS[0]}/{digit * 32}.state" for digit in "12"]
    write(tmp_path / "store", frozenset(names))
    an_hour_ago = time.time() - 3600
    os.utime(tmp_path / "store" / names[0], (an_hour_ago, an_hour_ago))
    found = inventory(Store(tmp_path / "store"), storage, min_age=timedelta(minutes=30))
    assert ([file.name for file in found.garbage], found.young) == ([names[0]], 1)


def test_a_study_of_other_code_stops_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, needed = studied(tmp_path)
    space = space_with(["eta"], 1, "search")
    finish(StudyRecord.open(storage, "mine", space), next(space.trials()))
    write(tmp_path / "store", needed)
    monkeypatch.setattr("co2l.learning.config.VERSION", 99)
    with pytest.raises(Co2lError, match="study 'mine': was made by other code"):
        inventory(Store(tmp_path / "store"), storage, min_age=NOW)


def test_a_study_that_runs_is_not_removed(tmp_path: Path) -> None:
    storage, needed = studied(tmp_path)
    write(tmp_path / "store", needed)
    where = Locations(tmp_path, str(tmp_path / "store"), storage, sqlite_url(tmp_path / "mlflow.db"))
    with driving(storage, "mine"), pytest.raises(Co2lError, match="another search drives this study"):
        remove(where, "mine")
    assert held(tmp_path / "store") == needed


@pytest.mark.parametrize("method", METHODS)
def test_everything_that_a_run_stores_is_reachable(method: str, tmp_path: Path) -> None:
    """By what it really writes, so that a new kind of measurement is not taken for garbage."""
    store, config = Store(tmp_path), short(method)
    for _ in run(config, few_digits(), store, device=CPU, exports=store):
        pass
    written = [file for file in store.contents() if file.is_ours]
    assert len(written) > 10
    assert [file.name for file in written if file.key not in keys_of(config)] == []
