"""The example plug-in as others would ship it: built as a wheel, installed, found by name, and keeping its promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import call, call_forked, environment

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel is installed; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = folder / "source"  # building leaves files beside the source
    subprocess.run(["cp", "-r", str(FOLDER), str(source)], check=True)
    built = [*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(folder), str(source)]
    subprocess.run(built, check=True)
    (wheel,) = folder.glob("*.whl")
    installed = [*pip, "install", "--no-deps", "--no-index", "--target", str(folder / "site"), str(wheel)]
    subprocess.run(installed, check=True)
    return folder / "site"


def test_its_own_tests_pass(site: Path, tmp_path: Path) -> None:
    """A test for every promise and method."""
    tests = site.parent / "source" / "tests"  # outside this repository, whose options would hold for them too
    words = [sys.executable, "-m", "pytest", str(tests)]
    changed = environment(PYTHONPATH=str(site))
    done = subprocess.run(words, cwd=tmp_path, env=changed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "22 passed" in done.stdout


def test_its_methods_are_found_by_name(site: Path, tmp_path: Path) -> None:
    short = ["--set", "epochs=1", "--benchmark", "r_digits", "--quiet"]
    done = call("co2l.train", "--method", "er_ace", *short, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert "er_ace on r_digits" in done.stdout
    near = call_forked("co2l.train", "--method", "er_acee", *short, cwd=tmp_path, PYTHONPATH=str(site))
    assert near.stderr.endswith("co2l: unknown method 'er_acee'; did you mean 'er_ace'?\n")
    without = call_forked("co2l.train", "--method", "er_ace", *short, cwd=tmp_path)
    assert without.returncode == 2
    assert "unknown method 'er_ace'" in without.stderr
