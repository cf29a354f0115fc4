"""Malformed spaces, settings, command lines and URLs by the thousand: one short line and exit code 2, nothing written.

More of them with `--hypothesis-profile long`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from bad_spaces import GOOD
from commands import call_here
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from co2l.cli import training
from co2l.cluster import selftest, services
from co2l.commands import COMMANDS as ALL
from co2l.commands import export, module_of, spaces
from co2l.commands.completion import words_of
from co2l.errors import Co2lError
from co2l.learning.methods import METHODS
from co2l.learning.store import Store
from co2l.search import service
from co2l.search.running import engine, local_ray
from co2l.search.space.document import PARTS, Document
from co2l.shipped import folder as shipped_folder
from co2l.urls import check_tracking_uri, database_url

ACCEPTED = "accepted"
AMOUNT = settings.default.max_examples  # type: ignore[attr-defined]
many = settings(max_examples=8 * AMOUNT, deadline=None, suppress_health_check=list(HealthCheck))
SECRET = "hunter2"

JUNK = [
    "",
    " ",
    "/dev/zero",
    "-1",
    "0",
    "1e999",
    "nan",
    "-inf",
    "9" * 400,
    "9" * 5000,
    "0x",
    "1_0",
    "2020-13-45",
    "2020-01-02",
]
JUNK += [
    "!!int ''",
    "!!float x",
    "!!timestamp x",
    "!!python/name:os.system",
    "[" * 700,  # deeper than can be read; PyYAML takes half a second for a few thousand
    "{a: " * 2000,
    "&a [*a]",
    "*a",
]
JUNK += ["../../x", "..", "/", "/dev/null", "~nobody-here/x", "a" * 300, "a/b", "\x1b[31mred", "\u202e", "\udcff", "é"]
JUNK += [
    f"u:{SECRET}@host/db",
    f"postgresql://u:{SECRET}@h:abc/db",
    f"http://u:{SECRET}/w@h",
    "foo://x",
    "http://[",
    "a::b",
]
NAMES = sorted({name for method in METHODS.values() for name in method.settings_type.model_fields})
KEYS = sorted({*Document.model_fields, *(name for part in PARTS.values() for name in part.model_fields)})

printable = st.text(st.characters(exclude_characters="\0"), max_size=30)  # no program is ever given a NUL
word = st.one_of(st.sampled_from(JUNK), printable, st.integers().map(str), st.floats().map(str))
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), word, st.dates())
key = st.one_of(st.sampled_from([*KEYS, *NAMES]), word)
tree = st.recursive(
    plain, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(key, inner, max_size=4)), max_leaves=12
)


@pytest.fixture(scope="module", autouse=True)
def nothing_begins() -> Iterator[None]:
    """What is accepted after all ends before it starts anything."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise Co2lError(ACCEPTED)

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((service, "search"), (service, "evaluate"), (training, "run_here")):
            patch.setattr(module, name, refuse)
        for name in ("serve", "run_mlflow"):
            patch.setattr(services, name, refuse)
        for module, name in ((selftest, "selftest"), (spaces, "write_atomic"), (export, "write_atomic")):
            patch.setattr(module, name, refuse)
        patch.setattr(shutil, "copytree", refuse)
        patch.setattr(local_ray, "early_ray", lambda *_, **__: contextlib.nullcontext())
        patch.setattr(engine, "connected", lambda *_, **__: contextlib.nullcontext())
        patch.setattr(Store, "check", lambda _: None)  # it writes where it is told to
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fuzz") / "here"
    made.mkdir()
    (made / "space.yaml").write_text(GOOD)
    (made / "config.yaml").write_text("benchmark: seq_digits\nsettings: {E_0: 1}\n")
    shutil.copy(shipped_folder("cluster") / "gpu.yaml", made / "cluster.yaml")
    return made


def check(folder: Path, module: str, *arguments: str, may_be_right: bool = False) -> None:
    done = call_here(module, *arguments, cwd=folder)
    if may_be_right and done.returncode == 0:
        return
    assert (done.returncode, done.stdout) == (2, ""), done
    if done.stderr.endswith(f"co2l: {ACCEPTED}\n"):  # after warnings, perhaps
        return
    assert done.stderr.startswith("co2l: ")
    assert done.stderr.endswith("\n")
    line = done.stderr[:-1]
    assert line.isprintable(), line
    assert len(line) <= 300, line
    assert SECRET not in line
    left = {path.name for path in folder.parent.rglob("*")} - {
        "here",
        "space.yaml",
        "config.yaml",
        "cluster.yaml",
        "wrong.yaml",
    }
    assert not left


@many
@given(st.one_of(tree.map(lambda found: yaml.safe_dump(found, allow_unicode=True)), word, printable.map(str)))
def test_files_that_are_no_spaces(folder: Path, text: str) -> None:
    (folder / "wrong.yaml").write_bytes(text.encode(errors="surrogatepass"))
    check(folder, "co2l.tune", "--plan", "--space", "wrong.yaml")
    check(folder, "co2l.evaluate", "--config", "wrong.yaml")


@many
@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), key), tree, min_size=1, max_size=3))
def test_spaces_with_wrong_parts(folder: Path, changes: dict[str, Any]) -> None:
    document = yaml.safe_load(GOOD) | changes
    (folder / "wrong.yaml").write_text(json.dumps(document, default=str), encoding="utf-8")
    check(folder, "co2l.tune", "--plan", "--space", "wrong.yaml", may_be_right=True)


@many
@given(
    st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), word), st.one_of(word, tree.map(str))), min_size=1, max_size=2)
)
def test_settings(folder: Path, values: list[tuple[str, str]]) -> None:
    assignments = [text for name, value in values for text in ("--set", f"{name}={value}")]
    check(folder, "co2l.tune", "--plan", "--space", "space.yaml", *assignments, may_be_right=True)
    check(folder, "co2l.train", *assignments)


NETWORK = {"--submit", "--follow", "--stop", "--measure", "--from"}  # these wait for others, or for the clock
FIRST = {  # words that a command needs before others matter
    "tune": [["--space", "space.yaml"], ["--space", "space.yaml", "--plan"]],
    "evaluate": [["--space", "space.yaml"], ["--config", "config.yaml"]],
    "train": [[]],
    "protocols": [["--space", "space.yaml", "--plan"], ["--space", "space.yaml"]],
    "cluster": [["serve"], ["copy"], ["check", "--offline", "cluster.yaml"], ["check", "--offline"], ["mlflow"]],
}
COMMANDS = [
    (module_of(name), sorted({*words_of(name)} - NETWORK), first)
    for name in ALL
    for first in FIRST.get(name, [[], ["x"], ["x", "y"]])
]


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    module, flags, first = draw(st.sampled_from(COMMANDS))
    pairs = draw(st.lists(st.tuples(st.one_of(st.sampled_from(flags), word), word), min_size=1, max_size=3))
    joined = draw(st.booleans())
    given_ = [f"{flag}={value}" for flag, value in pairs] if joined else [text for pair in pairs for text in pair]
    return module, [*first, *(text for text in given_ if text not in ("-h", "--help"))]


@many
@given(command_lines())
def test_command_lines(folder: Path, line: tuple[str, list[str]]) -> None:
    module, arguments = line
    check(folder, module, *arguments, may_be_right=True)


CLUSTER = yaml.safe_load((shipped_folder("cluster") / "gpu.yaml").read_text())
INSIDE = [(), ("provider",), ("auth",), ("docker",), ("available_node_types",), ("available_node_types", "worker")]


@many
@given(st.sampled_from(INSIDE), st.dictionaries(word, tree, min_size=1, max_size=2), st.booleans())
def test_files_of_clusters(folder: Path, where: tuple[str, ...], changes: dict[str, Any], known: bool) -> None:
    """Each finding of the check is a line of its own; what it cannot read at all is one line."""
    document = json.loads(json.dumps(CLUSTER))
    part = document
    for name in where:
        part = part.get(name, part)
    names = sorted(part)
    part |= {names[len(key) % len(names)] if known else key: value for key, value in changes.items()}
    (folder / "wrong.yaml").write_text(json.dumps(document, default=str), encoding="utf-8")
    done = call_here("co2l.cluster.__main__", "check", "--offline", "wrong.yaml", cwd=folder)
    assert done.returncode in (0, 2)
    if done.stderr:
        assert len(done.stderr) <= 301
        assert done.stderr[:-1].isprintable()
    else:
        assert done.stdout.endswith(("wrong\n", "ready\n"))


def refusal(read: Callable[[], object]) -> str:
    try:
        read()
    except Co2lError as error:
        return error.short()
    return ""


@many
@given(
    st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["", "sqlite:///", "postgresql://", "mysql+x://", "http://", "https:", "file:", "x://"]),
        st.one_of(st.just(""), word.map(lambda text: f"user:{SECRET}{text}@")),
        word,
        st.sampled_from(["", ":0", ":x", ":99999999999", "/db", "?a=b", "#", "@"]),
    )
)
def test_urls(url: str) -> None:
    for read in (lambda: database_url(url, "--storage"), lambda: check_tracking_uri(url)):
        line = refusal(read)
        assert line.isprintable()
        assert len(line) <= 294
        assert SECRET not in line
