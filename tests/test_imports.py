"""A file that is imported by its path adds names; its source travels with trials and is in the keys of what it adds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from own_plugins import METHOD, write_file

from co2l import imports
from co2l.data.benchmarks import BENCHMARKS
from co2l.errors import Co2lError
from co2l.imports import Import, active, drop, read, use, use_given
from co2l.learning.config import RunConfig
from co2l.learning.methods import METHODS, configure
from co2l.search.running.trainable import Assignment, configured
from co2l.search.service import Options, assignments
from co2l.search.space.space import Space, load


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    for each in active():
        drop(each.top)
    assert "weighted" not in METHODS


def space_in(folder: Path, **keys: object) -> Space:
    document = {"benchmark": "stripes", "method": "weighted", "imports": ["own.py"], "axes": {"weight": [0.5, 1.0]}}
    (folder / "space.yaml").write_text(yaml.safe_dump({**document, **keys}), encoding="utf-8")
    return load(folder / "space.yaml")


def test_a_file_adds_a_method_and_a_benchmark(tmp_path: Path) -> None:
    use_given([str(write_file(tmp_path))])
    config = configure("stripes", "weighted", {"weight": 2})
    assert config.settings.model_dump()["weight"] == 2.0
    assert [(plugin.name, plugin.version) for plugin in config.plugins] == [("own", "")]
    assert configure("seq_digits", "er").plugins == ()
    with pytest.raises(Co2lError, match="unknown setting 'wieght'; did you mean 'weight'"):
        configure("stripes", "weighted", {"wieght": 2})
    with pytest.raises(Co2lError, match="unknown method 'wighted'; did you mean 'weighted'"):
        configure("stripes", "wighted")


def test_changed_source_changes_every_key_and_only_those_of_what_it_adds(tmp_path: Path) -> None:
    def keys() -> list[str]:
        use_given([str(tmp_path / "own.py")])
        config = configure("stripes", "weighted")
        return [*config.stage_keys(2), config.key, configure("stripes", "er").key, configure("seq_digits", "er").key]

    file = write_file(tmp_path)
    first = keys()
    assert keys() == first
    before = file.read_text()
    file.write_text(before.replace("loss + self", "loss + 1.0 * self"))
    changed = keys()
    assert [a == b for a, b in zip(first, changed, strict=True)] == [False, False, False, False, True]
    file.write_text(before)
    assert keys() == first


def test_the_source_of_another_import_counts_if_it_is_mentioned(tmp_path: Path) -> None:
    (tmp_path / "toolbox.py").write_text("from co2l.data.benchmarks import BENCHMARKS\nfrom other import STRIPES\n"
                                       "BENCHMARKS.register('stripes', STRIPES)\nx = 1\n")  # fmt: skip
    (tmp_path / "own.py").write_text(
        METHOD + "import toolbox\nfrom co2l.learning.methods import METHODS\nMETHODS.register('weighted', Weighted)\n"
    )
    whole = write_file(tmp_path, "other.py").read_text()
    (tmp_path / "other.py").write_text(whole.replace('METHODS.register("weighted", Weighted)', ""))
    use_given([str(tmp_path / name) for name in ("other.py", "toolbox.py", "own.py")])
    first = configure("seq_digits", "weighted").key
    (tmp_path / "toolbox.py").write_text((tmp_path / "toolbox.py").read_text().replace("x = 1", "x = 2"))
    use_given([str(tmp_path / name) for name in ("toolbox.py",)])
    assert configure("seq_digits", "weighted").key != first


def test_a_package_and_a_module_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write_file(tmp_path).read_text()
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "deep" / "__init__.py").write_text("from pack.deep import inner\n")
    (tmp_path / "pack" / "deep" / "inner.py").write_text(whole)
    monkeypatch.chdir(tmp_path)
    for given in ("pack.deep", "own"):
        use_given([given])
        assert "weighted" in METHODS
        for each in active():
            drop(each.top)
        assert "weighted" not in METHODS
    with pytest.raises(Co2lError, match="registers nothing"):
        use_given(["./pack"])
    (tmp_path / "pack" / "__init__.py").write_text("import pack.deep\n")
    use_given(["./pack"])
    assert METHODS["weighted"].__module__ == "pack.deep.inner"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("own.py", None, "--import own.py: cannot be read (No such file or directory); give a Python file"),
        ("own.py", "import no_such", "own.py:1: cannot be imported (ModuleNotFoundError: No module named 'no_such')"),
        ("own.py", "x = (\n", "own.py: cannot be imported (SyntaxError: '(' was never closed"),
        ("own.py", "x = 1\ny = 1 / 0\n", "own.py:2: cannot be imported (ZeroDivisionError: division by zero)"),
        ("own.py", "x = 1\n", "own.py: registers nothing; add for example METHODS.register("),
        ("my-own.py", "", "--import: 'my-own' cannot be the name of your module; give it another name"),
        ("json.py", "", "--import: 'json' cannot be the name of your module"),
        ("own.py", "from co2l.learning.methods import METHODS\nMETHODS.register('er', 3)\n", "one of co2l's own"),
        ("own.py", "from co2l.learning.methods import METHODS\nMETHODS.register('x', 3)\n", "is not a subclass of"),
        ("own.py", METHOD + "from co2l.learning.methods import METHODS\nMETHODS.register('x', Weighted)\n",
         "method 'x' calls itself 'weighted': set name = 'x' in its class"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_one_line(
    name: str, text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(Co2lError) as caught:
        use_given([name])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(caught.value.short()) <= 294
    assert active() == []


def test_there_is_no_such_module() -> None:
    with pytest.raises(Co2lError, match="there is no module 'no_such'; give a Python file"):
        use_given(["no_such"])


def test_half_an_import_leaves_nothing(tmp_path: Path) -> None:
    file = write_file(tmp_path)
    file.write_text(file.read_text() + "\nraise RuntimeError('late')\n")
    with pytest.raises(Co2lError, match="RuntimeError: late"):
        use_given([str(file)])
    assert "weighted" not in METHODS
    assert "stripes" not in BENCHMARKS
    assert "own" not in sys.modules


def test_a_space_names_what_it_imports_as_seen_from_its_file(tmp_path: Path) -> None:
    write_file(tmp_path)
    space = space_in(tmp_path)
    assert space.imports == (str(tmp_path / "own.py"),)
    canonical = space.canonical()
    assert "imports" not in canonical
    (plugin,) = canonical["plugins"]
    assert plugin.startswith("own ")
    assert json.dumps(space.replace(seeds=[0, 1]).canonical()["plugins"]) == json.dumps([plugin])
    assert "plugins" not in load_plain(tmp_path).canonical()


def load_plain(folder: Path) -> Space:
    return space_in(folder, benchmark="seq_digits", method="er", imports=[], axes={"eta": [0.1]})


def assignment_in(folder: Path) -> tuple[Assignment, RunConfig]:
    space = space_in(folder)
    options = Options(root=folder, study="s", data=folder, store="", storage="", tracking_uri="")
    trial = next(space.trials())
    return assignments(space, options)(trial), trial.config


def test_a_worker_gets_the_source_with_its_trial(tmp_path: Path) -> None:
    write_file(tmp_path)
    assignment, config = assignment_in(tmp_path)
    sent = json.loads(json.dumps(assignment.as_dict()))  # as another process sees it
    drop("own")
    (tmp_path / "own.py").unlink()
    assert configured(Assignment(**sent)).as_dict() == config.as_dict()
    assert [each.path for each in active()] == [""]


def test_a_worker_uses_the_source_it_was_sent_last(tmp_path: Path) -> None:
    file = write_file(tmp_path)
    first, config = assignment_in(tmp_path)
    file.write_text(file.read_text().replace("2 * labels", "2 * labels + 1"))
    second, changed = assignment_in(tmp_path)
    assert config.key != changed.key
    assert configured(first).key == config.key
    assert configured(second).key == changed.key


def test_a_worker_with_other_source_refuses(tmp_path: Path) -> None:
    write_file(tmp_path)
    assignment, _ = assignment_in(tmp_path)
    (wanted,) = assignment.plugins
    with pytest.raises(Co2lError, match=r"the source of own 0000 differs there"):
        configured(replace(assignment, plugins=({**wanted, "digest": "0000"},)))
    missing = {"name": "no-such-package", "version": "2.1", "digest": "0"}
    with pytest.raises(Co2lError, match=r"the package no-such-package 2.1 is not installed there"):
        configured(replace(assignment, plugins=(missing,)))
    with pytest.raises(Co2lError, match=r"the package pytest is .* there and 0.1 where the search runs"):
        configured(replace(assignment, plugins=({**missing, "name": "pytest", "version": "0.1"},)))


def test_what_is_too_large_does_not_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "LARGEST", 100)
    with pytest.raises(Co2lError, match="is too large to travel with every trial; install it"):
        read(str(write_file(tmp_path)))


def test_only_source_is_carried(tmp_path: Path) -> None:
    """What a module looks for beside itself is not there on a worker, and the error says so."""
    text = "import pathlib, pkgutil\npkgutil.get_data('own', 'table.csv')\n"
    with pytest.raises(
        Co2lError, match=r"own: cannot be imported \(OSError: .*table.csv' does not travel with 'own'\)"
    ):
        use([Import("own", {"own.py": text})])
