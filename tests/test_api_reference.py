"""docs/api.md is what docs/build_api.py writes, and names everything public."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import co2l

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_api", DOCS / "build_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_page_is_up_to_date(builder: ModuleType) -> None:
    committed = (DOCS / "api.md").read_text(encoding="utf-8")
    assert builder.page() == committed, "run: python docs/build_api.py"


def test_every_public_name_and_every_flag_is_there() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in co2l.__all__:
        assert f"### `co2l.{name}" in text
    for command, flag in [("train", "--save-every"), ("tune", "--early-stop"), ("cluster mlflow", "--allowed-hosts")]:
        section = text.split(f"`python -m co2l.{command}`")[1].split("\n##")[0]
        assert f"| `{flag} " in section


def test_a_public_name_without_a_docstring_is_refused(builder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co2l.load_study, "__doc__", None)
    with pytest.raises(SystemExit, match="load_study"):
        builder.page()
