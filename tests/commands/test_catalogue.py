"""What there is: spaces to list and copy, methods, benchmarks, and every setting with its default, range and scope."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call_here, refusal_of

from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.config import Scope
from co2l.learning.methods import METHODS, configure

ROOT = Path(__file__).resolve().parents[2]


def listed(*arguments: str, cwd: Path) -> list[dict[str, object]]:
    done = call_here("co2l.__main__", *arguments, "--json", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_every_shipped_space_is_listed_with_what_it_is_for(tmp_path: Path) -> None:
    rows = listed("spaces", cwd=tmp_path)
    files = sorted((ROOT / "search_spaces").rglob("*.yaml"))
    expected = [str(path.relative_to(ROOT / "search_spaces"))[: -len(".yaml")] for path in files]
    assert sorted(str(row["name"]) for row in rows) == sorted(expected)
    assert all(row["about"] for row in rows), [row for row in rows if not row["about"]]
    below = listed("spaces", "paper/digits/", cwd=tmp_path)
    assert [row["name"] for row in below] == sorted(name for name in expected if name.startswith("paper/digits/"))


def test_a_copy_has_the_same_bytes_and_replaces_nothing(tmp_path: Path) -> None:
    done = call_here("co2l.__main__", "spaces", "--copy", "r_mnist/er", "mine.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "mine.yaml\n")
    assert (tmp_path / "mine.yaml").read_bytes() == (ROOT / "search_spaces" / "r_mnist" / "er.yaml").read_bytes()
    again = call_here("co2l.__main__", "spaces", "--copy", "seq_digits", "mine.yaml", cwd=tmp_path)
    assert refusal_of(again) == "co2l: mine.yaml: is there already; give another FILE"
    wrong = call_here("co2l.__main__", "spaces", "--copy", "seq_digit", "other.yaml", cwd=tmp_path)
    assert "unknown space 'seq_digit'; did you mean 'seq_digits'?" in refusal_of(wrong)


def test_methods_and_benchmarks(tmp_path: Path) -> None:
    assert [row["method"] for row in listed("methods", cwd=tmp_path)] == list(METHODS)
    rows = {row["benchmark"]: row for row in listed("benchmarks", cwd=tmp_path)}
    assert list(rows) == list(BENCHMARKS)
    assert (rows["r_mnist"]["tasks"], rows["r_mnist"]["image"]) == (20, "1×28×28")


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_is_explained(method: str, tmp_path: Path) -> None:
    rows = {row["setting"]: row for row in listed("settings", method, "seq_digits", cwd=tmp_path)}
    chosen = configure("seq_digits", method).settings
    assert {name: row["default"] for name, row in rows.items()} == dict(chosen)
    for name, row in rows.items():
        assert row["range"], name
        assert row["meaning"], name
        assert (row["read by"] == "evaluation") == (METHODS[method].settings_type.scope(name) is Scope.PROBE), name


def test_ranges_are_those_that_are_checked(tmp_path: Path) -> None:
    rows = {row["setting"]: row for row in listed("settings", "co2l", cwd=tmp_path)}
    assert rows["momentum"]["range"] == "≥ 0, < 1"
    assert rows["buffer_size"]["range"] == "≥ 0, unlimited"
    assert rows["supcon"]["range"] == "asymmetric, symmetric"
    assert rows["E_0"] == {**rows["E_0"], "default": 100, "range": "≥ 1", "read by": "task 1"}
    assert rows["kappa"]["read by"] == "task 2 on"


def test_an_unknown_name_answers_with_the_nearest(tmp_path: Path) -> None:
    done = call_here("co2l.__main__", "settings", "derp", cwd=tmp_path)
    assert "unknown method 'derp'; did you mean 'der" in refusal_of(done)
    done = call_here("co2l.__main__", "settings", "er", "seq_digit", cwd=tmp_path)
    assert "unknown benchmark 'seq_digit'; did you mean 'seq_digits'?" in refusal_of(done)
