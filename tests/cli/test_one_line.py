"""Inputs that once ended in a traceback, were taken for sense, or took all memory: each is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from bad_spaces import GOOD
from commands import call_here

from co2l.cli import training
from co2l.cluster import services
from co2l.search import service

THOUSAND = ", ".join(str(i / 1000) for i in range(1, 1001))
AXES = f"axes: {{eta: [{THOUSAND}], kappa: [{THOUSAND}], tau: [{THOUSAND}]}}"
FILES = {
    "file": "",
    "space.yaml": GOOD,
    "seeds.yaml": GOOD.replace("seeds: [0, 1]", "seeds: [-1]"),
    "samples.yaml": GOOD + "algorithm: random\nsamples: 1000000000000\n",
    "grid.yaml": f"benchmark: seq_digits\n{AXES}\n",
    "cpus.yaml": GOOD + "resources: {cpus: 1.0e-9}\n",
    "values.yaml": GOOD + f"retries: [{'1, ' * 3_000_000}]\n",
    "merged.yaml": "a: &a {k: 1}\n"
    + "".join(
        f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
    ),
}
TUNE = ["co2l.tune", "--space", "space.yaml"]
REFUSED = {
    "a date": [*TUNE, "--set", "eta=2020-13-45"],
    "no whole number": [*TUNE, "--set", "eta=!!int ''"],
    "no time": [*TUNE, "--set", "eta=!!timestamp x"],
    "brackets": [*TUNE, "--set", "eta=" + "[" * 5000],
    "a file as root": [*TUNE, "--root", "file"],
    "below a file": [*TUNE, "--root", "file/runs"],
    "a bad port": [*TUNE, "--storage", "postgresql://u:p@host:abc/db"],
    "a store that is a file": [*TUNE, "--store", "file"],
    "a store that takes nothing": [*TUNE, "--store", "/dev/null"],
    "a store of no kind": [*TUNE, "--store", "foo://x"],
    "a store that is only read": [*TUNE, "--store", "http://127.0.0.1:1/x"],
    "a store of nothing": [*TUNE, "--store", "dir://x"],
    "no store for an evaluation": ["co2l.evaluate", "--space", "space.yaml", "--store", "file"],
    "less than no trial": [*TUNE, "--max-concurrent", "-1"],
    "endless seeds": ["co2l.evaluate", "--space", "space.yaml", "--seeds", "100000000000"],
    "no port": ["co2l.cluster.__main__", "serve", "--port", "99999"],
    "a space as configuration": ["co2l.evaluate", "--config", "space.yaml"],
    "no root": ["co2l.train", "--root", ""],
    "no number of seconds": [*TUNE, "--time-budget", "nan"],
    "less than no time": [*TUNE, "--save-every", "-1"],
    "a negative seed": ["co2l.train", "--seed", "-1"],
    "a negative seed of the search": [*TUNE, "--seed", "-1"],
    "negative seeds": ["co2l.tune", "--space", "seeds.yaml"],
    "too many epochs": [*TUNE, "--set", "E_0=1" + "0" * 400],
    "too few cores": ["co2l.tune", "--space", "cpus.yaml"],
    "too few cores by flag": [*TUNE, "--cpus-per-trial", "1e-9"],
    "too many samples": ["co2l.tune", "--space", "samples.yaml"],
    "a vast grid": ["co2l.tune", "--space", "grid.yaml"],
    "a merge bomb": ["co2l.tune", "--space", "merged.yaml"],
    "megabytes": ["co2l.tune", "--space", "values.yaml"],
}


@pytest.fixture(autouse=True)
def nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it was accepted")

    for module, name in ((service, "search"), (service, "evaluate"), (training, "run_here"), (services, "serve")):
        monkeypatch.setattr(module, name, begun)


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    module, *arguments = REFUSED[what]
    done = call_here(module, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("co2l: ")
    assert len(line) <= 300
    assert {path.name for path in tmp_path.rglob("*")} == set(FILES)
