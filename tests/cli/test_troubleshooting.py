"""docs/troubleshooting.md: every mistake in its table is made, and the documented answer is what the program prints."""

from __future__ import annotations

import ast
import contextlib
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from commands import call_here, environment, refusal_of
from fsspec.registry import _registry as file_systems
from mistakes import DOCUMENTED, ROWS, check_documented
from mlflow_server import file_uri

from co2l import shipped
from co2l.cli import console
from co2l.search.record.study import StudyRecord
from co2l.search.space.space import load

ROOT = Path(__file__).resolve().parents[2]
SPACE = {"benchmark": "seq_digits", "axes": {"kappa": [0.1, 0.2]}}


def run(*command: str, cwd: Path, **changes: str) -> str:
    """What a program that is refused prints."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(**changes), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode != 0 or "mlflow" in command, done.stdout  # whose server calls this a success
    return done.stdout + done.stderr


def python(*arguments: str, cwd: Path, **changes: str) -> str:
    return run(sys.executable, *arguments, cwd=cwd, **changes)


def refused(module: str, *arguments: str, cwd: Path, **changes: str) -> str:
    """What a command that is refused prints, here."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setenv(name, value)
        patch.setattr(urllib.request, "_opener", None)  # it would remember a proxy beyond this call
        done = call_here(module, *arguments, cwd=cwd)
    return refusal_of(done)


def write_space(folder: Path, **changes: Any) -> None:
    (folder / "small.yaml").write_text(yaml.safe_dump({**SPACE, **changes}))


def flag(folder: Path) -> str:
    return refused("co2l.tune", "--spaces", "search_spaces/seq_digits.yaml", cwd=folder)


def key(folder: Path) -> str:
    return refused("co2l.train", "--set", "kapa=0.1", cwd=folder)


def key_of_a_space(folder: Path) -> str:
    (folder / "wrong.yaml").write_text("benchmark: seq_digits\nsetings: {}\naxes: {kappa: [0.1]}\n")
    return refused("co2l.tune", "--space", "wrong.yaml", cwd=folder)


def wrong_folder(folder: Path) -> str:
    return refused("co2l.tune", "--space", "spaces/mine.yaml", cwd=folder)


def wrong_root(folder: Path) -> str:
    return refused("co2l.evaluate", "--study", "seq_digits", cwd=folder)


def wrong_environment(folder: Path) -> str:
    return python("-I", "-S", "-m", "co2l.tune", cwd=folder)  # as a Python in which nothing was installed


def no_data(folder: Path) -> str:
    return refused("co2l.train", "--benchmark", "seq_tiny_imagenet", cwd=folder, CO2L_DATA="")


def no_network(folder: Path) -> str:
    nobody = "http://127.0.0.1:9"  # a proxy that is not there
    proxies = {"http_proxy": nobody, "https_proxy": nobody, "no_proxy": ""}
    return refused("co2l.train", "--benchmark", "seq_cifar10", cwd=folder, CO2L_DATA="", **proxies)


@contextmanager
def taken_port() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield str(taken.getsockname()[1])


def port_of_mlflow(folder: Path) -> str:
    with taken_port() as port:
        server = ["-m", "mlflow", "ui", "--backend-store-uri", file_uri(folder), "--port", port]
        quick = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        return python(*server, cwd=folder, **quick)


def port_of_a_head(folder: Path) -> str:
    with taken_port() as port:
        return refused("co2l.cluster.__main__", "serve", "--folder", "head", "--port", port, cwd=folder)


def other_space(folder: Path) -> str:
    write_space(folder)
    storage = f"sqlite:///{folder}/runs.db"
    StudyRecord.open(storage, "small", load(folder / "small.yaml"))
    write_space(folder, axes={"kappa": [0.1, 0.3]})
    return refused("co2l.tune", "--space", "small.yaml", "--storage", storage, cwd=folder)


def full_disk(folder: Path) -> str:
    """A disk of 64 kB in a mount namespace of our own."""
    (folder / "runs").mkdir()
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=64k none runs"
    if not shutil.which("unshare") or subprocess.run([*alone, mount], cwd=folder, check=False).returncode:
        pytest.skip("this user cannot mount a small disk; tests/e2e/test_train_killed.py fills one in another way")
    train = [sys.executable, "-m", "co2l.train", "--quiet", "--set", "E_0=1", "--set", "E_t=1"]
    return run(*alone, f'{mount} && exec "$@"', "sh", *train, cwd=folder)


OLD_PIP = """
import sys, types
from pip._internal.cli.main import main
from pip._internal.resolution.resolvelib import candidates
candidates.sys = types.SimpleNamespace(version_info=(3, 8, 20))  # by which pip evaluates what a package requires
sys.exit(main(sys.argv[1:]))
"""


def old_python_installs(folder: Path) -> str:
    """This pip, and what it would say if this were an old Python."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "co2l").mkdir()
    (folder / "co2l" / "__init__.py").touch()
    options = ["--no-deps", "--no-build-isolation", "--target", "nowhere", "--no-index"]
    return python("-c", OLD_PIP, "install", *options, ".", cwd=folder)


def old_python(folder: Path) -> str:
    pretend = "import runpy, sys; sys.version_info = (3, 8, 18); runpy.run_module('co2l.tune', run_name='__main__')"
    return python("-c", pretend, cwd=folder)


def without(package: str, module: str, *arguments: str, cwd: Path) -> str:
    """The command where the package is not installed."""

    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{package}'", name=name)

    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            patch.delitem(sys.modules, name)
        patch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find_spec), *sys.meta_path])
        patch.delitem(file_systems, "s3", raising=False)  # if it was imported before
        return refused(module, *arguments, cwd=cwd)


def no_driver(folder: Path) -> str:
    write_space(folder)
    storage = ["--storage", "postgresql://me@nowhere/studies"]
    return without("psycopg", "co2l.tune", "--space", "small.yaml", *storage, cwd=folder)


def no_bucket(folder: Path) -> str:
    return without("s3fs", "co2l.train", "--root", "s3://bucket/runs", cwd=folder)


MISTAKES: dict[str, Callable[[Path], str]] = {
    "typo in a flag": flag,
    "typo in a key": key,
    "typo in a space": key_of_a_space,
    "wrong folder": wrong_folder,
    "wrong `--root`": wrong_root,
    "wrong environment": wrong_environment,
    "no data": no_data,
    "no data and no network": no_network,
    "port in use": port_of_mlflow,
    "port in use on a head": port_of_a_head,
    "study exists with another space": other_space,
    "disk full": full_disk,
    "old Python, installing": old_python_installs,
    "old Python, in a clone": old_python,
    "missing extra, database": no_driver,
    "missing extra, bucket": no_bucket,
}
PROCESSES = {"port in use", "disk full", "old Python, installing"}
ELSEWHERE = {"interrupted run": "test_train_killed.py", "interrupted search": "test_chaos.py"}  # in e2e


def test_every_documented_mistake_is_made() -> None:
    assert DOCUMENTED.keys() == MISTAKES.keys() | ELSEWHERE.keys()
    for mistake, file in ELSEWHERE.items():
        assert f'check_documented("{mistake}", ' in (ROOT / "tests" / "e2e" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "mistake", [pytest.param(name, marks=[pytest.mark.e2e] * (name in PROCESSES)) for name in MISTAKES]
)
def test_the_documented_answer_is_what_is_printed(mistake: str, tmp_path: Path) -> None:
    check_documented(mistake, MISTAKES[mistake](tmp_path))


def test_a_wheel_is_not_told_to_install_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "co2l" / "_shipped").mkdir(parents=True)
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "co2l" / "shipped.py"))
    for mistake in (no_driver, no_bucket):
        assert mistake(tmp_path).endswith(" pip install 'co2l[cluster]'")


def test_an_old_python_can_read_what_tells_it_so() -> None:
    """The check is in the first file that is imported, before anything that an older Python cannot parse."""
    source = (ROOT / "co2l" / "__init__.py").read_text(encoding="utf-8")
    body = ast.parse(source, feature_version=(3, 7)).body
    check = next(i for i, node in enumerate(body) if isinstance(node, ast.If) and "version_info" in ast.unparse(node))
    before = {name.name for node in body[:check] if isinstance(node, ast.Import) for name in node.names}
    assert before == {"sys"}
    minimum = re.search(r'requires-python = ">=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert minimum is not None
    assert f"({minimum[1]}, {minimum[2]})" in ast.unparse(body[check])
    assert f"needs {minimum[1]}.{minimum[2]} or later" in source


def test_the_exit_codes_are_documented() -> None:
    codes = {int(row[0]) for row in ROWS if len(row) == 2 and row[0].isdigit()}
    assert codes == {console.OK, console.FAILED, console.WRONG_INPUT, console.INTERRUPTED}


def test_a_free_port_is_proposed_where_the_usual_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from co2l.cli import browse

    with taken_port() as port:
        monkeypatch.setattr(browse, "PORTS", range(int(port), int(port) + 50))
        command, page = browse.browse("sqlite:////somewhere/mlflow.db", "#/page")
        other = re.search(r" --port (\d+)$", command)
        assert other is not None
        assert int(other[1]) > int(port)
        assert page == f"  then: http://127.0.0.1:{other[1]}/#/page"
    command, _ = browse.browse("sqlite:////somewhere/mlflow.db", "#/page")
    assert "--port" not in command
    assert browse.browse("http://host:5000/", "#/page") == ["browse: http://host:5000/#/page"]


def test_what_is_printed_to_browse_can_be_typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from co2l.cli import browse

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", "")
    command, _ = browse.browse(f"sqlite:///{tmp_path}/runs/mlflow.db", "")
    assert command.startswith("browse: .venv/bin/python -m mlflow ui --backend-store-uri sqlite:///runs/mlflow.db")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "mlflow").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / ".venv" / "bin"))
    command, _ = browse.browse(f"sqlite:///{tmp_path}/runs/mlflow.db", "")
    assert command.startswith("browse: mlflow ui ")


SHORTEST = ["--set", "E_0=1", "--set", "E_t=1", "--set", "probe_epochs=1"]


def on_a_terminal(module: str, *arguments: str, cwd: Path) -> bytes:
    """What the command shows on a terminal."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
            while part := os.read(ours, 65536):
                shown.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w") as terminal:
        done = call_here(module, *arguments, cwd=cwd, terminal=terminal)
    reader.join()
    os.close(ours)
    assert done.returncode == 0
    return b"".join(shown)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_terminal_has_colours_unless_they_are_not_wanted(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not wanted:
        monkeypatch.setenv("NO_COLOR", "1")
    shown = on_a_terminal("co2l.train", *SHORTEST, cwd=tmp_path)
    assert b"Class-IL" in shown
    assert b"\r\x1b[J" in shown, "a row that is drawn anew shows that this is a terminal"
    colours = re.findall(rb"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9[0-7])(?:;[\d;]*)?m", shown)
    assert bool(colours) == wanted, colours
