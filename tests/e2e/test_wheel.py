"""The wheel stands alone: in an empty folder, without the repository, the README's first commands work."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ONE_TRIAL = "--set eta=0.01 --set kappa=0.1 --set kappa_star=0.01 --set buffer_size=50"
SHORT = f"--set E_0=1 --set E_t=1 --set probe_epochs=1 --set matrix_probe=none {ONE_TRIAL}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content; what it depends on is this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder), str(folder / "source")]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("co2l-*.whl")
    install = [*pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    shutil.rmtree(folder / "source")
    return folder / "site"


def type_in(folder: Path, installed: Path, command: str) -> str:
    """What a command prints that is typed in `folder`, where only the wheel is found."""
    words = shlex.split(command)
    assert words[0] == "co2l"
    done = subprocess.run(
        [str(installed / "bin" / "co2l"), *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_first_commands_of_the_readme(installed: Path, tmp_path: Path) -> None:
    """With short settings, which the README's commands have not: everything else is as written there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh wheel\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    install, *commands = block.splitlines()
    assert install.startswith("pip install ")
    assert len(commands) == 5
    printed = {}
    for command in commands:
        short = SHORT if command.startswith("co2l tune") else ""
        printed[command.split()[1]] = type_in(tmp_path, installed, f"{command.partition('#')[0]} {short}")
    assert "paper/digits/ird_ablation" in printed["spaces"]
    assert "selected on validation data: seq_digits by val/score" in printed["tune"]
    assert "co2l evaluate --study seq_digits" in printed["tune"]
    assert re.search(r"seq_digits +search +co2l on seq_digits", printed["studies"])
    assert "registered model: seq_digits @selected" in printed["evaluate"]
    assert (tmp_path / "runs" / "report" / "report.html").is_file()


def test_a_command_written_for_a_clone_works_too(installed: Path, tmp_path: Path) -> None:
    command = "co2l evaluate --space search_spaces/paper/digits/ird_ablation.yaml --plan --json"
    (planned,) = json.loads(type_in(tmp_path, installed, command))["spaces"]
    assert planned["trials"] == 4 * 10  # the rows of Table 2, each with ten seeds
    where = "import co2l, co2l.cluster.slurm_script as s; print(co2l.__file__, s.SHIPPED.is_file())"
    where += "; from co2l.shipped import install_command; print(install_command('cluster'))"
    done = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{installed / 'co2l' / '__init__.py'} True\npip install 'co2l[cluster]'\n"
