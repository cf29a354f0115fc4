"""All commands alike: help that fits a screen, one line for a wrong argument, and neither waits for heavy imports."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from commands import call_here

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["train", "tune", "evaluate", "protocols", "report", "cluster"]
SCREEN = 52  # lines
HEAVY = {"torch", "torchvision", "ray", "mlflow", "optuna", "pandas", "matplotlib", "numpy", "sklearn", "scipy"}
HEAVY |= {"sqlalchemy", "pydantic", "rich", "fsspec", "requests", "yaml"}
# Not timed, as this machine may be busy: what makes a start slow is not imported.
PROGRAM = """
import runpy, sys
module, *sys.argv[1:] = sys.argv[1:]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as ended:
    print("exit:", ended.code, "imported", *sorted({name.split(".")[0] for name in sys.modules}))
"""


def start(command: str, *arguments: str) -> tuple[int, set[str], str, str]:
    """Exit code, imported packages, output and errors of a command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"co2l.{command}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    out, _, end = done.stdout.rpartition("exit: ")
    code, _, *imported = end.split()
    return int(code), set(imported), out, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_one_screen_and_comes_at_once(command: str) -> None:
    code, imported, out, err = start(command, "--help")
    assert (code, err) == (0, "")
    assert "argparse" in imported, "the list of modules is not read"
    assert not imported & HEAVY
    assert len(out.splitlines()) <= SCREEN
    assert max(map(len, out.splitlines())) <= 120
    assert re.search(rf"examples?:\s+python -m co2l\.{command}", out)
    assert "exit codes: 0 done, " in out


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--helpp"], "unknown flag '--helpp'; did you mean '--help'?"),
        (["--spacee", "a.yaml", "--helpp=1"], "unknown flag '--"),
    ],
)
def test_a_wrong_flag_is_one_line_at_once(command: str, arguments: list[str], message: str) -> None:
    before = ["check", "a.yaml"] if command == "cluster" else ["--study", "a"] if command == "evaluate" else []
    code, imported, out, err = start(command, *before, *arguments)
    assert (code, out) == (2, "")
    assert not imported & HEAVY
    assert err.startswith(f"co2l: python -m co2l.{command}")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("train", ["--seed", "one"], "argument --seed: 'one' is not a whole number from 0"),
        ("train", ["kappa=0.1"], "'kappa=0.1' belongs to no flag"),
        ("tune", [], "no space is given; add --space FILE, such as search_spaces/seq_digits.yaml"),
        ("tune", ["--space", "a.yaml", "--algorithm", "tpee"], "unknown algorithm 'tpee'; did you mean 'tpe'?"),
        ("tune", ["--space", "a.yaml", "--sp", "b.yaml"], "unknown flag '--sp'"),  # flags are not abbreviated
        ("evaluate", [], "one of the arguments --study --config --space is required"),
        ("evaluate", ["--study", "a", "--seeds", "0"], "--seeds: '0' is not a whole number from 1 to 10000"),
        ("report", ["--compare", "a", "b", "--study", "c"], "--compare names its own studies"),
        ("cluster", ["chek"], "invalid choice: 'chek'"),
        ("cluster", ["check"], "the following arguments are required: FILE"),
    ],
)
def test_a_wrong_argument_is_one_line_at_once(command: str, arguments: list[str], message: str) -> None:
    code, imported, out, err = start(command, *arguments)
    assert (code, out) == (2, "")
    assert not imported & HEAVY
    assert message in err
    assert err.count("\n") == 1


def test_the_package_lists_its_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "co2l"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert set(COMMANDS) <= set(listed)
    assert "search the settings of a space" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["tune", "--help"], ["tun"], ["spaces"]])
def test_the_command_answers_without_heavy_imports(arguments: list[str]) -> None:
    code, imported, out, err = start("__main__", *arguments)
    assert code == (2 if arguments == ["tun"] else 0)
    assert "argparse" in imported, "the list of modules is not read"
    assert not imported & HEAVY
    if arguments == ["--version"]:
        assert out == f"co2l {version('co2l')}\n"
    if arguments == ["tune", "--help"]:
        assert "usage: co2l tune --space FILE" in out
        assert "python -m" not in out
    if arguments == ["tun"]:
        assert err == "co2l: co2l: unknown command 'tun'; did you mean 'tune'?\n"


def test_a_command_is_the_same_in_both_ways(tmp_path: Path) -> None:
    space = str(ROOT / "search_spaces" / "seq_digits.yaml")
    by_module = call_here("co2l.evaluate", "--space", space, "--plan", "--json", cwd=tmp_path)
    by_name = call_here("co2l.__main__", "evaluate", "--space", space, "--plan", "--json", cwd=tmp_path)
    assert by_module.returncode == 0
    assert (by_name.returncode, by_name.stdout, by_name.stderr) == (0, by_module.stdout, "")
    refused = call_here("co2l.__main__", "tune", "--spacee", "a", cwd=tmp_path)
    assert refused.stderr == "co2l: co2l tune: unknown flag '--spacee'; did you mean '--space'?\n"


def test_comparing_and_evaluating_mention_each_other() -> None:
    assert "python -m co2l.report --compare" in start("evaluate", "--help")[2]
    assert "co2l.evaluate" in start("report", "--help")[2]


def test_ctrl_c_ends_all_evaluations_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from co2l import evaluate
    from co2l.cli.console import INTERRUPTED, OK

    spaces = [f"search_spaces/paper/digits/r_digits/{name}.yaml" for name in ("er", "der", "fdr")]
    codes = dict(zip(spaces, (OK, INTERRUPTED, OK), strict=True))
    begun: list[str] = []

    def evaluated(_name: str, evaluation: object, *_: object) -> int:
        begun.append(next(space for space in spaces if space in str(evaluation.source)))  # type: ignore[attr-defined]
        return codes[begun[-1]]

    monkeypatch.setattr(evaluate, "_evaluate", evaluated)
    monkeypatch.setattr(
        sys, "argv", ["evaluate", *(part for space in spaces for part in ("--space", str(ROOT / space)))]
    )
    assert evaluate.main() == INTERRUPTED
    assert begun == spaces[:2]


@pytest.mark.parametrize(("left", "code"), [(0, 0), (3, 130)])
def test_a_search_that_was_stopped_after_its_last_trial_is_done(
    left: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job on Slurm would go back into the queue for nothing."""
    import signal

    import co2l.cli.outcome
    import co2l.search.running.local_ray
    import co2l.search.service
    from co2l import tune
    from co2l.search.record.entries import Cost
    from co2l.search.selection.rule import Choice
    from co2l.search.service import SearchResult, Summary

    def search(*_: object) -> SearchResult:
        signal.raise_signal(signal.SIGTERM)
        return SearchResult(Choice((object(),), (), ()), tmp_path, Summary(Cost(), left, {}, 0, ""), {})  # type: ignore[arg-type]

    monkeypatch.setattr(co2l.search.service, "search", search)
    monkeypatch.setattr(co2l.cli.outcome, "print_search", lambda *_, **__: None)
    monkeypatch.setattr(co2l.search.running.local_ray, "early_ray", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(sys, "argv", ["tune", "--space", str(ROOT / "search_spaces" / "seq_digits.yaml"), "--quiet"])
    assert tune.main() == code
