"""A space by its name: the shipped one, unless there is a file; a file's path always wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import call_here, refusal_of

from co2l import shipped
from co2l.cli.arguments import study_of
from co2l.search.space.space import load
from co2l.shipped import install_command, space_file, spaces

SHIPPED = Path(__file__).resolve().parents[1] / "search_spaces"


@pytest.mark.parametrize(
    ("given", "file", "study"),
    [
        ("seq_digits", "seq_digits.yaml", "seq_digits"),
        ("search_spaces/seq_digits.yaml", "seq_digits.yaml", "seq_digits"),
        ("paper/digits/asymmetric", "paper/digits/asymmetric.yaml", "paper-digits-asymmetric"),
    ],
)
def test_a_name_stands_for_the_shipped_file(
    given: str, file: str, study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert space_file(given) == SHIPPED / file
    assert study_of(given) == study
    assert load(given).canonical() == load(SHIPPED / file).canonical()


@pytest.mark.parametrize("given", ["seq_digits", "search_spaces/seq_digits.yaml"])
def test_a_file_wins(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(given).parent.mkdir(exist_ok=True)
    Path(given).write_bytes((SHIPPED / "r_digits.yaml").read_bytes())
    assert space_file(given) == Path(given)
    assert load(given).benchmark == "r_digits"


def test_a_missing_file_is_not_replaced_by_a_shipped_one(tmp_path: Path) -> None:
    """Only a name stands for a shipped space: who writes a path means that file."""
    for given in ("seq_digits.yaml", "my/seq_digits.yaml", "my/search_spaces/seq_digits.yaml"):
        done = call_here("co2l.tune", "--space", given, "--plan", cwd=tmp_path)
        assert f"{given}: cannot be read (No such file or directory)" in refusal_of(done)


def test_all_names_are_paths_below_the_folder() -> None:
    assert set(spaces().values()) == set(SHIPPED.rglob("*.yaml"))


def test_extras_are_installed_from_where_the_package_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel has no constraints and nothing to be editable: its folder holds the files that a clone has beside it."""
    assert install_command() == "pip install -c constraints.txt -e ."
    assert install_command("cluster") == "pip install -c constraints.txt -e '.[cluster]'"
    (tmp_path / "co2l" / "_shipped").mkdir(parents=True)
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "co2l" / "shipped.py"))
    assert install_command() == "pip install co2l"
    assert install_command("cluster") == "pip install 'co2l[cluster]'"
